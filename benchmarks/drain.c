/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that benchmarks/drain records: it calls an empty function at a rate, or as fast as it
 * can.
 *
 *   drain CALLS_PER_SECOND MILLISECONDS CPU
 *
 * CALLS_PER_SECOND 0: as fast as it can. Calls come evenly, in groups of 64: who falls behind,
 * because it had no CPU, makes up for at most 20 ms of that. CPU -1: wherever it runs. Prints the
 * calls made, the nanoseconds that they took, and how many of those it had a CPU.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNWATCHED __attribute__((no_instrument_function))
#define GROUP	  64
#define MAKE_UP	  20000000.0

__attribute__((noinline)) void live(void)
{
	__asm__ volatile("");
}

UNWATCHED static double ns_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

UNWATCHED int main(int argc, char **argv)
{
	double rate = argc > 3 ? atof(argv[1]) : 0, length = argc > 3 ? atof(argv[2]) * 1e6 : 0;
	double start, now, due, each = rate > 0 ? GROUP * 1e9 / rate : 0;
	uint64_t calls = 0;

	if (argc > 3 && atoi(argv[3]) >= 0) {
		cpu_set_t cpu;

		CPU_ZERO(&cpu);
		CPU_SET(atoi(argv[3]), &cpu);
		sched_setaffinity(0, sizeof(cpu), &cpu);
	}
	start = due = ns_of(CLOCK_MONOTONIC);
	while ((now = ns_of(CLOCK_MONOTONIC)) - start < length) {
		if (now < due)
			continue;
		due += each;
		if (now - due > MAKE_UP)
			due = now - MAKE_UP;
		for (int i = 0; i < GROUP; i++)
			live();
		calls += GROUP;
	}
	printf("%lu %.0f %.0f\n", calls, now - start, ns_of(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
