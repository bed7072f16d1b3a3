/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does to descriptors of the kernel's counters what a program may do to any that it finds, and
 * moves between CPUs.
 *
 *   stealing [-n ROUNDS] [-s]
 *
 * Says "ready", waits for a line, makes ROUNDS rounds, says "done", waits for a line, and prints
 * "function NAME CALLS PAGES" for two, which faults in two pages. moved goes to the next CPU that
 * it may use, and stayed does not; slept sleeps 2 ms, every tenth round. -s: every tenth round each
 * descriptor of a counter in this process is made one of a pipe with bytes in it; at the end they
 * must all be there: "intact", or "eaten". Then "taken N": how many there were.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define QUIET __attribute__((no_instrument_function))
#define KEEP  __attribute__((noinline))
#define PAGE  4096
#define BYTES 4096
#define MOST  4096

static unsigned long calls_two, calls_moved, taken;
static cpu_set_t allowed;

KEEP void two(void)
{
	volatile char *memory =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	memory[0] = memory[PAGE] = 1;
	munmap((void *)memory, 2 * PAGE);
	calls_two++;
}

KEEP void moved(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		abort();
	calls_moved++;
}

KEEP void stayed(void)
{
	__asm__ volatile("" : : : "memory");
}

KEEP void slept(void)
{
	const struct timespec nap = {.tv_nsec = 2000000};

	nanosleep(&nap, NULL);
}

QUIET static int next_cpu(int cpu)
{
	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(cpu, &allowed));
	return cpu;
}

QUIET static void steal(int with)
{
	char path[64], name[64];

	for (int fd = 3; fd < MOST; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		if (n < 0)
			continue;
		name[n] = '\0';
		if (strstr(name, "[perf_event]") && dup2(with, fd) == fd)
			taken++;
	}
}

QUIET static void wait_for_line(void)
{
	int c;

	while ((c = getchar()) != '\n' && c != EOF)
		;
}

QUIET int main(int argc, char **argv)
{
	unsigned long rounds = 100;
	char bytes[BYTES] = {0};
	int option, do_steal = 0, ends[2], cpu;

	while ((option = getopt(argc, argv, "n:s")) >= 0) {
		if (option == 'n')
			rounds = strtoul(optarg, NULL, 10);
		else if (option == 's')
			do_steal = 1;
		else
			return 2;
	}
	if (pipe2(ends, O_NONBLOCK) < 0 || write(ends[1], bytes, BYTES) != BYTES ||
	    sched_getaffinity(0, sizeof(allowed), &allowed) < 0)
		return 1;
	cpu = next_cpu(sched_getcpu());
	moved(cpu);
	two();
	calls_two = calls_moved = 0;
	puts("ready");
	fflush(stdout);
	wait_for_line();
	for (unsigned long i = 0; i < rounds; i++) {
		two();
		cpu = next_cpu(cpu);
		moved(cpu);
		stayed();
		if (i % 10 == 0)
			slept();
		if (do_steal && i % 10 == 9)
			steal(ends[0]);
	}
	puts("done");
	fflush(stdout);
	wait_for_line();
	printf("function two %lu %lu\nfunction moved %lu 0\n", calls_two, 2 * calls_two,
	       calls_moved);
	puts(read(ends[0], bytes, BYTES) == BYTES ? "intact" : "eaten");
	printf("taken %lu\n", taken);
	return 0;
}
