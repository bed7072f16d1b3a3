/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that end by jumping to another one, where the compiler makes tail calls (-O2), also
 * without any frame, with arguments on the way, through a pointer, and out of a recursion.
 *
 * Prints what it has computed.
 */
#include <stdio.h>

#define KEEP __attribute__((noinline))

static volatile long sink = 1;

KEEP static long last(long a, long b, double c)
{
	return a * 3 + b + (long)c + sink;
}

KEEP static long third(long a, long b, double c)
{
	return last(b, a, c + 1);
}

/* Has a frame, which it takes down before the jump. */
KEEP static long second(long a, long b, double c)
{
	volatile char room[200];

	room[b & 127] = 1;
	return third(a + room[b & 127], last(a, b, c), c);
}

static long (*volatile pointer)(long, long, double) = second;

KEEP static long first(long a, long b, double c)
{
	return pointer(a, b, c);
}

KEEP static long unwind(long n, long b, double c)
{
	if (n) {
		long r = unwind(n - 1, b, c);

		sink = 1; /* no loop */
		return r;
	}
	return first(n, b, c);
}

int main(void)
{
	long sum = 0;

	for (long i = 0; i < 50; i++)
		sum += unwind(i % 4, i, 1.5);
	printf("%ld\n", sum);
	return 0;
}
