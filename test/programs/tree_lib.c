/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared library that tree_start is linked against: it calls back into the program, and runs
 * code before main and after it.
 */
#include "tree_log.h"

static volatile int sink;

int lib_twice(int (*callback)(int), int x);

KEEP static int lib_private(int x)
{
	ENTER("lib_private");
	LEAVE("lib_private");
	return x + 1;
}

KEEP int lib_public(int x)
{
	ENTER("lib_public");
	int r = lib_private(x);

	LEAVE("lib_public");
	return r;
}

KEEP int lib_twice(int (*callback)(int), int x)
{
	ENTER("lib_twice");
	int r = callback(x) + lib_public(x) + callback(x + 1);

	LEAVE("lib_twice");
	return r;
}

__attribute__((constructor)) KEEP static void lib_begin(void)
{
	ENTER("lib_begin");
	sink = lib_private(1);
	LEAVE("lib_begin");
}

__attribute__((destructor)) KEEP static void lib_end(void)
{
	ENTER("lib_end");
	sink = lib_public(1);
	LEAVE("lib_end");
}
