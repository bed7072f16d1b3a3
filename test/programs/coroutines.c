/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coroutines on stacks of their own that pass control to and fro in the middle of nested calls,
 * while the main stack calls other functions. Each coroutine runs to its end.
 *
 * Prints "function NAME CALLS" for each function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#define KEEP  __attribute__((noinline))
#define QUIET __attribute__((no_instrument_function))

enum { COROUTINES = 5, STACK = 64 << 10 };

static ucontext_t back, contexts[COROUTINES];
static int current, ended[COROUTINES];
static long calls[6];
static volatile int sink;

QUIET static void yield(void)
{
	swapcontext(&contexts[current], &back);
}

KEEP static int step(int n)
{
	calls[0]++;
	return n + sink;
}

KEEP static int nested(int n)
{
	calls[1]++;
	sink = step(n);
	yield();
	sink = n ? nested(n - 1) : 0;
	yield();
	return step(n) - 1;
}

KEEP static void body(void)
{
	calls[2]++;
	for (int i = 0; i < 4; i++) {
		sink = nested(current + i) * 0;
		yield();
	}
	ended[current] = 1;
}

KEEP static int between(int n)
{
	calls[3]++;
	return step(n) * 0;
}

KEEP static int resume(int which)
{
	calls[4]++;
	current = which;
	swapcontext(&back, &contexts[which]);
	sink = between(which);
	return ended[which];
}

int main(void)
{
	static const char *const names[] = {"step", "nested", "body", "between", "resume", "main"};
	int left = COROUTINES;

	calls[5]++;
	for (int i = 0; i < COROUTINES; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = malloc(STACK);
		contexts[i].uc_stack.ss_size = STACK;
		contexts[i].uc_link = &back;
		makecontext(&contexts[i], body, 0);
	}
	while (left)
		for (int i = 0; i < COROUTINES; i++)
			if (!ended[i])
				left -= resume(i);
	for (int i = 0; i < 6; i++)
		printf("function %s %ld\n", names[i], calls[i]);
	return 0;
}
