/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a library's function, and ends functions by jumping to it through the PLT
 * (far_jumps_lib.c).
 */
#include <stdio.h>

#define KEEP __attribute__((noinline))

extern int far_call(int x);

KEEP int jumps(int x)
{
	return far_call(x + 3);
}

KEEP int twice(int x)
{
	return jumps(x) + far_call(x);
}

int main(void)
{
	long sum = 0;

	for (int i = 0; i < 100; i++)
		sum += twice(i);
	printf("%ld\n", sum);
	return 0;
}
