/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function that takes long in one of its stretches, in each tenth call:
 *
 *   stretches N   0: before its first call; 1: between two calls of one function; 2: between the
 *                 calls of a loop, in each of its rounds; 3: behind the last one; 4: in a callee
 *                 that calls nothing
 *   stretches N live   so for ever, and rests a little after each call
 */
#include <stdlib.h>
#include <time.h>

#define KEEP __attribute__((noinline))

#define LONG_US 4000

static volatile unsigned sink;
static int slow = -1; /* where this call is */

static inline __attribute__((always_inline)) void stretch(int number, long us)
{
	struct timespec begin, now;

	if (number != slow)
		return;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

KEEP void parse(int i)
{
	sink += i;
}

KEEP void load(int i)
{
	sink ^= i;
}

KEEP void store(int i)
{
	sink -= i;
}

KEEP void leaf(int i)
{
	stretch(4, LONG_US);
	sink += i;
}

KEEP void handle(int i)
{
	stretch(0, LONG_US);
	parse(i); /* @parse */
	load(i);  /* @load */
	stretch(1, LONG_US);
	load(i + 1); /* @again */
	for (volatile int k = 0; k < 8; k++) {
		stretch(2, LONG_US / 7);
		store(i); /* @store */
	}
	leaf(i); /* @leaf */
	stretch(3, LONG_US);
	sink++;
}

KEEP void serve(int i)
{
	parse(i);
	handle(i);
}

int main(int argc, char **argv)
{
	const int where = argc > 1 ? atoi(argv[1]) : 0;

	for (int i = 0; argc > 2 || i < 500; i++) {
		slow = i % 10 == 3 ? where : -1;
		serve(i);
		if (argc > 2)
			nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return 0;
}
