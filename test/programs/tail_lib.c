/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a library that tail_times.cc jumps to, and that jump on within it through the
 * linker's table.
 */
#include <time.h>

#define KEEP __attribute__((noinline))

KEEP int lib_work(int us)
{
	struct timespec now, begin;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000l + now.tv_nsec - begin.tv_nsec <
	       us * 1000l);
	return us;
}

KEEP int lib_direct(int us)
{
	return lib_work(us + 1);
}
