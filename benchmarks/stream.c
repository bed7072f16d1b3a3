/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program that benchmarks/stream records: calls of an empty function at a given rate.
 *
 *   stream CALLS_A_SECOND SECONDS
 *
 * It calls in bursts of a millisecond's worth, and prints how many calls it made, the nanoseconds
 * of CPU time for each of them, and those of the whole process.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define UNWATCHED __attribute__((no_instrument_function))

__attribute__((noinline)) void live(void)
{
	__asm__ volatile("");
}

UNWATCHED static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

UNWATCHED int main(int argc, char **argv)
{
	const uint64_t rate = argc > 2 ? strtoull(argv[1], NULL, 10) : 0,
		       length = argc > 2 ? 1000000000 * strtod(argv[2], NULL) : 0;
	const uint64_t begun = now(CLOCK_MONOTONIC);
	uint64_t calls = 0, own = 0, passed;

	if (!rate || !length)
		return 2;
	while ((passed = now(CLOCK_MONOTONIC) - begun) < length) {
		const struct timespec rest = {.tv_nsec = 1000000};
		const uint64_t due = passed * rate / 1000000000 - calls,
			       before = now(CLOCK_THREAD_CPUTIME_ID);

		for (uint64_t i = 0; i < due; i++)
			live();
		own += now(CLOCK_THREAD_CPUTIME_ID) - before;
		calls += due;
		nanosleep(&rest, NULL);
	}
	printf("%lu %.3f %lu\n", calls, (double)own / calls, now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
