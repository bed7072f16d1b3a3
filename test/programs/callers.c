/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that are called from known places: a comment names it and how often that is in a round.
 * `callers [ROUNDS]`
 */
#include <stdio.h>
#include <stdlib.h>

#define KEPT   __attribute__((noinline))
#define HIDDEN __attribute__((noinline, no_instrument_function))

static volatile long sink;

KEPT int compare(const void *a, const void *b)
{
	sink++;
	return *(const int *)a - *(const int *)b;
}

KEPT long work(long n)
{
	for (long i = 0; i < n; i++)
		sink += i;
	return sink & 7;
}

KEPT long once(void)
{
	return work(50) + 1; /* work: 1 */
}

KEPT long twice(void)
{
	long sum = work(500); /* work: 1 */

	sum += work(5); /* work: 1 */
	return sum;
}

/* Has no probes: only the return address tells that it calls. */
HIDDEN long hidden(void)
{
	return work(20) + 2; /* work: 1 */
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 10, sum = 0;

	for (long i = 0; i < rounds; i++) {
		int numbers[3] = {3, 1, 2};

		qsort(numbers, 3, sizeof(*numbers), compare);
		sum += once() + twice() + hidden(); /* once: 1, twice: 1 */
	}
	printf("%ld\n", sum & 1);
	return 0;
}
