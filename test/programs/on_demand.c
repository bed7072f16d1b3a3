/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that does nothing until it is told to, by lines: "call N MS" calls handle() N times,
 * each call takes so long; "threads N" starts N threads, each of which calls handle() once, and
 * waits. It answers each line with "done". It ends with its input.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))

static unsigned wait_us;
static pthread_barrier_t met;

__attribute__((noinline)) void handle(void)
{
	if (wait_us)
		usleep(wait_us);
	__asm__ volatile("");
}

QUIET static void *work(void *data)
{
	handle();
	pthread_barrier_wait(&met);
	for (;;)
		pause();
	return data;
}

QUIET static void start(unsigned n)
{
	pthread_barrier_init(&met, NULL, n + 1);
	for (unsigned i = 0; i < n; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, work, NULL))
			exit(1);
	}
	pthread_barrier_wait(&met);
}

QUIET int main(void)
{
	unsigned n, ms;
	char line[64];

	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "call %u %u", &n, &ms) == 2) {
			wait_us = 1000 * ms;
			for (unsigned i = 0; i < n; i++)
				handle();
		} else if (sscanf(line, "threads %u", &n) == 1) {
			start(n);
		}
		puts("done");
		fflush(stdout);
	}
	return 0;
}
