/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with many functions that call each other in an order that no predictor learns: read
 * PAIRS makes about so many calls.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUNCTIONS 64

static uint64_t state = 88172645463325252ull;
static long calls, limit;

static unsigned draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 33;
}

static void go(unsigned depth);

#define ONE(n)                                                                                     \
	__attribute__((noinline)) static void function##n(unsigned depth)                          \
	{                                                                                          \
		go(depth);                                                                         \
		__asm__ volatile("");                                                              \
	}
#define EIGHT(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7)
#define NAME(n)	 function##n,
#define NAMES(n)                                                                                   \
	NAME(n##0) NAME(n##1) NAME(n##2) NAME(n##3) NAME(n##4) NAME(n##5) NAME(n##6) NAME(n##7)

/* clang-format off */
EIGHT(0) EIGHT(1) EIGHT(2) EIGHT(3) EIGHT(4) EIGHT(5) EIGHT(6) EIGHT(7)

static void (*const functions[FUNCTIONS])(unsigned) = {
	NAMES(0) NAMES(1) NAMES(2) NAMES(3) NAMES(4) NAMES(5) NAMES(6) NAMES(7)};
/* clang-format on */

/* Two calls, or none: eight levels at most, each function calls four others only. */
__attribute__((no_instrument_function, noinline)) static void go(unsigned depth)
{
	unsigned number = draw();

	for (unsigned i = 0; depth < 8 && i < (number & 2); i++, number >>= 2) {
		calls++;
		functions[(depth * 8 + (number >> 8 & 3)) % FUNCTIONS](depth + 1);
	}
}

int main(int argc, char **argv)
{
	limit = argc > 1 ? atol(argv[1]) : 1000;
	while (calls < limit)
		go(0);
	printf("%ld\n", calls);
	return 0;
}
