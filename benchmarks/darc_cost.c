/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What benchmarks/darc_cost searches: one thread does operations, by serve(): a chain of functions
 * of DEPTH levels, each with two callees more. Some operations are slow, by the last function.
 *
 *   darc_cost RATE PER_MILLE SLOW_US
 *
 * RATE: operations a second; 0: one after the other. For each WINDOW_NS it prints its end
 * (CLOCK_MONOTONIC), the operations that began in it, and their time but for what makes some slow,
 * in ns.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE   __attribute__((noinline))
#define UNRECORDED __attribute__((no_instrument_function))
#define WINDOW_NS  10000000
#define WORK	   70u /* an operation takes some 2.3 us, as stat(2) did in the paper */

static volatile unsigned sink;
static uint64_t slow_ns;

UNRECORDED static inline uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

UNRECORDED static inline __attribute__((always_inline)) void work(void)
{
	for (unsigned i = 0; i < WORK; i++)
		sink += i;
}

#define LEAF(name)                                                                                 \
	NOINLINE static void name(void)                                                            \
	{                                                                                          \
		work();                                                                            \
	}
/* the end is no tail call */
#define LEVEL(number, below)                                                                       \
	LEAF(look##number)                                                                         \
	LEAF(note##number)                                                                         \
	NOINLINE static void level##number(unsigned is_slow)                                       \
	{                                                                                          \
		look##number();                                                                    \
		below(is_slow);                                                                    \
		note##number();                                                                    \
		__asm__ volatile("");                                                              \
	}

NOINLINE static void level8(unsigned is_slow)
{
	work();
	if (is_slow)
		for (uint64_t end = now() + slow_ns; now() < end;)
			sink++;
}
LEVEL(7, level8)
LEVEL(6, level7)
LEVEL(5, level6)
LEVEL(4, level5)
LEVEL(3, level4)
LEVEL(2, level3)
LEVEL(1, level2)

NOINLINE void serve(unsigned is_slow)
{
	level1(is_slow);
	__asm__ volatile("");
}

UNRECORDED int main(int argc, char **argv)
{
	const unsigned rate = argc == 4 ? atoi(argv[1]) : 0,
		       per_mille = argc == 4 ? atoi(argv[2]) : 0;
	uint64_t begin = now(), due = begin, end, operations = 0, slow = 0, x = 1;

	slow_ns = argc == 4 ? 1000 * (uint64_t)atoi(argv[3]) : 0;
	for (;;) {
		unsigned is_slow;

		x = x * 6364136223846793005ull + 1442695040888963407ull;
		is_slow = (x >> 33) % 1000 < per_mille;
		serve(is_slow);
		operations++;
		slow += is_slow;
		end = now();
		if (end - begin >= WINDOW_NS) {
			printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", end, operations,
			       end - begin - slow * slow_ns);
			fflush(stdout);
			begin = now();
			operations = slow = 0;
		}
		if (!rate)
			continue;
		due += 1000000000 / rate;
		while (now() < due)
			if (due - now() > 200000)
				nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
}
