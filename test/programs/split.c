/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that gcc splits and copies (-O2): work() has a head that is inlined into its callers
 * here, and a rest, work.part.0; those who call it through a pointer call the function itself,
 * which goes on in the part. kept() is copied with a constant (.constprop), taken() with other
 * parameters (.isra), rare() has a cold part (.cold).
 *
 *   split N   calls work() N times through a pointer, 2N times directly, N times in a recursion
 *             (see below); prints what came out
 */
#include <stdio.h>
#include <stdlib.h>

#define BUSY(v)                                                                                    \
	do {                                                                                       \
		for (volatile int busy_ = 0; busy_ < 20; busy_++)                                  \
			(v) = (v)*31 + busy_;                                                      \
	} while (0)

struct pair {
	long a, b;
};

unsigned long work(unsigned long n, int depth);
unsigned long direct(unsigned long n);
unsigned long rare(unsigned long n);
unsigned long (*volatile by_pointer)(unsigned long, int) = work;

/* Returns at once for odd numbers. A depth of 1 calls itself: from within the part, with the head
 * inlined. */
unsigned long work(unsigned long n, int depth)
{
	unsigned long v = n;

	if (n & 1)
		return 1;
	BUSY(v);
	printf("%s", v == 12345678 ? "never" : "");
	if (depth > 0)
		v += work(n + 2, depth - 1);
	BUSY(v);
	printf("%s", v == 12345678 ? "never" : "");
	return v | 1;
}

__attribute__((noinline)) unsigned long direct(unsigned long n)
{
	return work(n, 0) + work(n + 2, 0) + 1;
}

static __attribute__((noinline)) unsigned long kept(unsigned long n, int what)
{
	BUSY(n);
	return what == 7 ? n : n + (unsigned long)what;
}

static __attribute__((noinline)) unsigned long taken(const struct pair *p, int unused)
{
	unsigned long n = (unsigned long)p->a;

	(void)unused;
	BUSY(n);
	return n + 1;
}

__attribute__((cold, noinline)) static void complain(unsigned long n)
{
	fprintf(stderr, "%lu\n", n);
}

__attribute__((noinline)) unsigned long rare(unsigned long n)
{
	if (__builtin_expect(n == 3, 0)) {
		complain(n);
		BUSY(n);
		if (n == 77)
			abort();
	}
	return n + 1;
}

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10, sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		struct pair p = {(long)i, 1};

		sum += by_pointer(2 * i, 0) + 1; /* the function, and its part */
		sum += by_pointer(1, 0) + 1;	 /* the function alone */
		sum += direct(2 * i);		 /* the part, twice */
		/* the function, its part, and from there the part by itself */
		sum += by_pointer(2 * i, 1) + 1;
		sum += kept(i, 7);
		sum += taken(&p, 1);
		sum += rare(i % 5);
	}
	printf("%lu\n", sum);
	return 0;
}
