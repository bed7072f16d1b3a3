// SPDX-License-Identifier: Apache-2.0
/*
 * Most calls of serve() take some nanoseconds, and call step() a hundred times: once step() is live
 * they take far longer. Others are a peak of their own in between. One of forty waits in
 * read_page().
 */
#include <time.h>

#define QUIET __attribute__((no_instrument_function))

static volatile unsigned sink;

QUIET static inline void turn(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		sink++;
}

__attribute__((noinline)) void step(unsigned i)
{
	sink += i;
}

__attribute__((noinline)) void read_page(unsigned i)
{
	if (i % 40 == 2)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	sink++;
}

__attribute__((noinline)) void serve(unsigned i)
{
	if (i % 4 == 3) {
		turn(6000);
	} else {
		for (unsigned k = 0; k < 100; k++)
			step(k);
		read_page(i);
	}
	sink++;
}

QUIET int main(void)
{
	for (unsigned i = 0;; i++)
		serve(i);
}
