// SPDX-License-Identifier: Apache-2.0
/*
 * serve() takes three ways: most calls are fast, some wait 2 ms in read_index(), and a few 20 ms in
 * read_page(). So its latency has three peaks, and the two slow ones have causes of their own.
 */
#include <time.h>

#define QUIET __attribute__((no_instrument_function))

static volatile unsigned sink;

QUIET static inline void rest(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

__attribute__((noinline)) void read_index(unsigned i)
{
	if (i % 10 == 1)
		rest(2);
	sink++;
}

__attribute__((noinline)) void read_page(unsigned i)
{
	if (i % 40 == 2)
		rest(20);
	sink += 2;
}

__attribute__((noinline)) void look_up(unsigned i)
{
	read_index(i);
	read_page(i);
}

__attribute__((noinline)) void serve(unsigned i)
{
	look_up(i);
	sink++;
}

QUIET int main(void)
{
	for (unsigned i = 0;; i++)
		serve(i);
}
