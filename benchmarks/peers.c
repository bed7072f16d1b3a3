/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The small program of benchmarks/peers: calls an empty function so often, and prints how many
 * nanoseconds of the process's CPU time (its own and the kernel's) that took; then how many two
 * bare readings of the processor's clock take.
 *
 *   empty CALLS
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

#define READINGS  100000
#define UNWATCHED __attribute__((no_instrument_function))

__attribute__((noinline)) void empty(void)
{
	__asm__ volatile("");
}

UNWATCHED static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

UNWATCHED int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000;
	double from = now_ns();

	for (long i = 0; i < calls; i++)
		empty();
	printf("TIME %.0f\n", now_ns() - from);
	from = now_ns();
	for (long i = 0; i < READINGS; i++) {
		__asm__ volatile("" : : "r"(__rdtsc()));
		__asm__ volatile("" : : "r"(__rdtsc()));
	}
	printf("RDTSC %.2f\n", (now_ns() - from) / READINGS);
	return 0;
}
