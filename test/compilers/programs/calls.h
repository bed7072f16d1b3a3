/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program of the matrix knows of itself: how often each function was called, and how often
 * one was left otherwise than by returning. Printed at the end, for the test to hold the trace
 * against.
 *
 * CALLED stands first in a function, CALLED_INLINE in one that the compiler may inline, or whose
 * calls of itself it may make a loop: a placement that sees no inlined functions may then show
 * fewer calls. LEFT stands before what may leave the frame without its return.
 */
#ifndef CALLS_H
#define CALLS_H

#include <stdio.h>

#define QUIET __attribute__((no_instrument_function))
#if defined(__clang__)
#define KEEP __attribute__((noinline))
#else
#define KEEP __attribute__((noipa))
#endif
/* keeps the compiler from knowing a value */
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))

struct calls {
	const char *name;
	int exact;
	unsigned long count, left;
	struct calls *next;
};

static struct calls *calls_all;

QUIET static __attribute__((unused)) void calls_count(struct calls *c)
{
	if (__atomic_fetch_add(&c->count, 1, __ATOMIC_SEQ_CST))
		return;
	c->next = __atomic_load_n(&calls_all, __ATOMIC_SEQ_CST);
	while (!__atomic_compare_exchange_n(&calls_all, &c->next, c, 0, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST))
		;
}

QUIET static __attribute__((unused)) void calls_print(void)
{
	for (struct calls *c = __atomic_load_n(&calls_all, __ATOMIC_SEQ_CST); c; c = c->next)
		printf("calls %s %s %lu %lu\n", c->exact ? "exactly" : "atmost", c->name, c->count,
		       c->left);
}

#define CALLED_(exactly)                                                                           \
	static struct calls calls_here = {__func__, exactly, 0, 0, 0};                             \
	calls_count(&calls_here)
#define CALLED	      CALLED_(1)
#define CALLED_INLINE CALLED_(0)
#define LEFT	      __atomic_fetch_add(&calls_here.left, 1, __ATOMIC_SEQ_CST)

#endif
