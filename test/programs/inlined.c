/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a function all the time which has code of its own, and is inlined wherever it is called.
 *
 *   inlined
 *
 * Says "ready", and ends when stdin does.
 */
#include <poll.h>
#include <stdio.h>

static volatile unsigned sink;

__attribute__((always_inline)) inline void helper(unsigned x)
{
	sink += x;
}

extern void helper(unsigned x); /* code of its own */

__attribute__((noinline)) void never_called(void)
{
	sink++;
}

int main(void)
{
	struct pollfd input = {0, POLLIN, 0};

	puts("ready");
	fflush(stdout);
	while (poll(&input, 1, 0) == 0)
		for (unsigned i = 0; i < 100000; i++)
			helper(i);
	return sink == 1 ? (never_called(), 1) : 0;
}
