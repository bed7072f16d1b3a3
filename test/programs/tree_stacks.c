/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several stacks, and functions that end without an exit: contexts that run on a stack of their
 * own, a signal handler on an alternate stack that switches to a third one, jumps back to where
 * other functions are called next, and, with "quit", _exit in the middle.
 */
#include "tree_log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int sink;
static ucontext_t here, there;
static jmp_buf landing;

KEEP static int leaf(int n)
{
	ENTER("leaf");
	LEAVE("leaf");
	return n + sink;
}

KEEP static int link_three(int n)
{
	ENTER("link_three");
	int r = leaf(n);

	LEAVE("link_three");
	return r;
}

KEEP static int link_two(int n)
{
	ENTER("link_two");
	int r = leaf(n) + link_three(n + 1);

	LEAVE("link_two");
	return r;
}

KEEP static int link_one(int n)
{
	ENTER("link_one");
	int r = link_two(n + 1);

	LEAVE("link_one");
	return r;
}

KEEP static int count_down(int n)
{
	ENTER("count_down");
	int r = n ? count_down(n - 1) : link_one(n);

	LEAVE("count_down");
	return r;
}

KEEP static void on_own_stack(void)
{
	ENTER("on_own_stack");
	for (int i = 0; i < 3; i++)
		sink = link_one(i);
	LEAVE("on_own_stack");
}

/* Runs on_own_stack() to its end on another stack. */
KEEP static void switch_stack(void)
{
	ENTER("switch_stack");
	char *stack = malloc(64 << 10);

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = 64 << 10;
	there.uc_link = &here;
	makecontext(&there, on_own_stack, 0);
	swapcontext(&here, &there);
	free(stack);
	LEAVE("switch_stack");
}

KEEP static void on_signal(int sig)
{
	ENTER("on_signal");
	sink = leaf(sig);
	switch_stack();
	LEAVE("on_signal");
}

KEEP static void deep(int n)
{
	ENTER("deep");
	if (n)
		deep(n - 1);
	else
		raise(SIGUSR1);
	LEAVE("deep");
}

KEEP static void jump_back(int n)
{
	ENTER("jump_back");
	if (n)
		jump_back(n - 1);
	else
		longjmp(landing, 1);
	LEAVE("jump_back");
}

/* Each time another function is called where the frames were that the jump took away. */
KEEP static void land(int n)
{
	ENTER("land");
	if (setjmp(landing) == 0)
		jump_back(n);
	LANDED();
	sink = n % 3 == 0 ? leaf(n) : n % 3 == 1 ? link_one(n) : count_down(n);
	LEAVE("land");
}

KEEP static void quit(int n)
{
	ENTER("quit");
	if (n)
		quit(n - 1);
	else
		_exit(0);
	LEAVE("quit");
}

int main(int argc, char **argv)
{
	ENTER("main");
	stack_t ss = {.ss_sp = malloc(256 << 10), .ss_size = 256 << 10};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	sigaltstack(&ss, NULL);
	sigaction(SIGUSR1, &action, NULL);
	sink = count_down(5);
	for (int i = 0; i < 9; i++)
		land(i);
	for (int i = 0; i < 3; i++)
		switch_stack();
	deep(3);
	deep(0);
	for (int i = 0; i < 9; i++)
		land(i);
	if (argc > 1 && !strcmp(argv[1], "quit"))
		quit(4);
	LEAVE("main");
	return 0;
}
