/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library of far_jumps.c. Its function calls another one by the PLT, and jumps to a third one.
 */
#include <stdlib.h>

#define KEEP __attribute__((noinline))

KEEP int far_leaf(int x)
{
	return abs(x) + 1;
}

KEEP int far_last(int x)
{
	return far_leaf(x) + 1;
}

KEEP int far_call(int x)
{
	return far_last(far_leaf(x) * 2);
}
