/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server without clients: handles a request each millisecond. SIGUSR1 makes one of the functions
 * that it calls slow (20 ms a call), and quick again; SIGHUP makes a single call of it slow (600
 * ms). SIGUSR2 makes it compute without a pause, and again with. SIGTERM ends it. grow MIB: takes
 * so much memory first. become PROGRAM: on SIGUSR2 it executes that.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))

static volatile sig_atomic_t slow, once, busy, ended;
static volatile unsigned sink;

QUIET static void on_signal(int number)
{
	if (number == SIGUSR1)
		slow = !slow;
	else if (number == SIGHUP)
		once = 1;
	else if (number == SIGUSR2)
		busy = !busy;
	else
		ended = 1;
}

QUIET static void wait_ms(long ms)
{
	const struct timespec t = {.tv_nsec = ms * 1000000};

	nanosleep(&t, NULL);
}

KEEP void parse(void)
{
	for (unsigned i = 0; i < 100; i++)
		sink += i;
}

KEEP void look_up(void)
{
	if (slow)
		wait_ms(20);
	if (once) {
		once = 0;
		wait_ms(600);
	}
	sink++;
}

KEEP void reply(unsigned number)
{
	for (unsigned i = 0; i < 100; i++)
		sink += i ^ number;
}

KEEP void handle(void)
{
	static unsigned replies;

	parse();
	look_up();
	reply(++replies);
}

int main(int argc, char **argv)
{
	size_t size = argc > 2 && !strcmp(argv[1], "grow") ? (size_t)atoi(argv[2]) << 20 : 0;
	char *memory = malloc(size + 1);

	if (!memory)
		return 1;
	memset(memory, 1, size + 1);
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	signal(SIGHUP, on_signal);
	signal(SIGTERM, on_signal);
	puts("ready");
	fflush(stdout);
	while (!ended) {
		if (busy && argc > 2 && !strcmp(argv[1], "become"))
			execl(argv[2], argv[2], NULL);
		handle();
		if (!busy)
			wait_ms(1);
	}
	return memory[size] != 1;
}
