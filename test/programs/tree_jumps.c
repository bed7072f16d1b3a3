/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setjmp and longjmp: over one frame and over many, again and again, nested, out of callbacks, into
 * the same frame.
 */
#include "tree_log.h"

#include <setjmp.h>
#include <stdlib.h>

static volatile int sink;
static jmp_buf outer, inner;

KEEP static int helper(int x)
{
	ENTER("helper");
	LEAVE("helper");
	return x + 1;
}

/* Its frame is larger than those that a jump took away. */
KEEP static int roomy_helper(int x)
{
	ENTER("roomy_helper");
	volatile char room[700];

	room[0] = (char)x;
	int r = helper(room[0]);

	LEAVE("roomy_helper");
	return r;
}

KEEP static void throw_to(jmp_buf where, int value)
{
	ENTER("throw_to");
	sink = helper(value);
	longjmp(where, value);
}

KEEP static void descend(int n, jmp_buf where, int value)
{
	ENTER("descend");
	sink = helper(n);
	if (n)
		descend(n - 1, where, value);
	else
		throw_to(where, value);
	LEAVE("descend");
}

KEEP static int roomy_attempt(int n)
{
	ENTER("roomy_attempt");
	int r = 0;

	if (!setjmp(inner)) {
		descend(n, inner, 1);
	} else {
		LANDED();
		r = roomy_helper(n);
	}
	LEAVE("roomy_attempt");
	return r;
}

KEEP static int attempt(int n)
{
	ENTER("attempt");
	int r = 0;

	if (!setjmp(inner)) {
		descend(n, inner, 1);
	} else {
		LANDED();
		r = helper(n);
	}
	LEAVE("attempt");
	return r;
}

/* Jumps back into its own frame several times; each time frames above it are gone. */
KEEP static void again_and_again(void)
{
	ENTER("again_and_again");
	volatile int count = 0;
	int value = setjmp(inner);

	if (value)
		LANDED();
	if (value < 5) {
		count++;
		sink = helper(count);
		descend(value * 3, inner, value + 1);
	}
	LEAVE("again_and_again");
}

KEEP static void both_levels(int n)
{
	ENTER("both_levels");
	if (!setjmp(outer)) {
		sink = attempt(2);
		if (!setjmp(inner)) {
			descend(n, inner, 1);
		} else {
			LANDED();
			descend(n / 2, outer, 1);
		}
	} else {
		LANDED();
	}
	sink = helper(n);
	LEAVE("both_levels");
}

static int countdown;

KEEP static int compare_and_jump(const void *a, const void *b)
{
	ENTER("compare_and_jump");
	if (--countdown == 0)
		throw_to(inner, 1);
	LEAVE("compare_and_jump");
	return *(const int *)a - *(const int *)b;
}

KEEP static void out_of_callback(int after)
{
	ENTER("out_of_callback");
	int v[] = {5, 3, 8, 1, 9, 2};

	countdown = after;
	if (!setjmp(inner))
		qsort(v, 6, sizeof(int), compare_and_jump);
	else
		LANDED();
	LEAVE("out_of_callback");
}

/* A frame deep enough that the jump crosses more than a window of stack pointer bits. */
KEEP static void wide_frame(int n, jmp_buf where)
{
	ENTER("wide_frame");
	volatile char room[30000];

	room[0] = 1;
	if (n)
		wide_frame(n - 1, where);
	else
		throw_to(where, room[0]);
	LEAVE("wide_frame");
}

KEEP static void far_away(int n)
{
	ENTER("far_away");
	if (!setjmp(inner))
		wide_frame(n, inner);
	else
		LANDED();
	sink = helper(n);
	LEAVE("far_away");
}

int main(void)
{
	ENTER("main");
	for (int i = 0; i < 20; i++)
		sink = attempt(i);
	for (int i = 0; i < 20; i++)
		sink = roomy_attempt(i);
	again_and_again();
	both_levels(7);
	for (int i = 1; i < 6; i++)
		out_of_callback(i);
	for (int i = 0; i < 8; i++)
		far_away(i);
	/* The tree goes on level after all of it. */
	sink = helper(0);
	LEAVE("main");
	return 0;
}
