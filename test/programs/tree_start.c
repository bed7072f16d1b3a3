/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs before main and after it: constructors, destructors and atexit handlers of the program
 * and of a shared library that is loaded at start; calls across the border between the two.
 *
 *   tree_start [deep]     deep: ends by exit() from a deep frame
 */
#include "tree_log.h"

#include <stdlib.h>

int lib_public(int x);
int lib_twice(int (*callback)(int), int x);

static volatile int sink;

KEEP static int helper(int x)
{
	ENTER("helper");
	int r = lib_public(x);

	LEAVE("helper");
	return r;
}

__attribute__((constructor(200))) KEEP static void begin_second(void)
{
	ENTER("begin_second");
	sink = helper(2);
	LEAVE("begin_second");
}

__attribute__((constructor(101))) KEEP static void begin_first(void)
{
	ENTER("begin_first");
	sink = helper(1);
	LEAVE("begin_first");
}

__attribute__((destructor(150))) KEEP static void end_last(void)
{
	ENTER("end_last");
	sink = helper(1);
	LEAVE("end_last");
}

__attribute__((destructor)) KEEP static void end_first(void)
{
	ENTER("end_first");
	LEAVE("end_first");
}

KEEP static void at_exit_handler(void)
{
	ENTER("at_exit_handler");
	sink = helper(3);
	LEAVE("at_exit_handler");
}

KEEP static void leave_deep(int n)
{
	ENTER("leave_deep");
	if (n)
		leave_deep(n - 1);
	else
		exit(0);
	LEAVE("leave_deep");
}

int main(int argc, char **argv)
{
	ENTER("main");
	atexit(at_exit_handler);
	sink = lib_twice(helper, 5);
	if (argc > 1)
		leave_deep(5);
	LEAVE("main");
	return 0;
}
