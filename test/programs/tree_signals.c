/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handlers that come at known moments: raised, nested, on an alternate stack, after a fault;
 * and left by return or by siglongjmp.
 */
#define _GNU_SOURCE
#include "tree_log.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile int sink;
static sigjmp_buf landing;
static char *volatile forbidden;

KEEP static int helper(int x)
{
	ENTER("helper");
	LEAVE("helper");
	return x + 1;
}

KEEP static void on_plain(int sig)
{
	ENTER("on_plain");
	sink = helper(sig);
	LEAVE("on_plain");
}

KEEP static void on_nesting(int sig)
{
	ENTER("on_nesting");
	raise(SIGUSR1);
	sink = helper(sig);
	raise(SIGUSR1);
	LEAVE("on_nesting");
}

KEEP static void on_leaving(int sig)
{
	ENTER("on_leaving");
	sink = helper(sig);
	siglongjmp(landing, 1);
}

KEEP static void install(int sig, void (*handler)(int), int flags)
{
	ENTER("install");
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags};

	sigaction(sig, &sa, NULL);
	LEAVE("install");
}

KEEP static void use_alternate_stack(char *stack, size_t size)
{
	ENTER("use_alternate_stack");
	stack_t ss = {.ss_sp = stack, .ss_size = size};

	if (sigaltstack(&ss, NULL))
		abort();
	LEAVE("use_alternate_stack");
}

KEEP static void raise_from(int depth, int sig)
{
	ENTER("raise_from");
	if (depth) {
		raise_from(depth - 1, sig);
		sink = helper(depth);
	} else {
		raise(sig);
	}
	LEAVE("raise_from");
}

KEEP static void fault(int depth)
{
	ENTER("fault");
	if (depth)
		fault(depth - 1);
	else
		*forbidden = 1;
	sink = helper(depth);
	LEAVE("fault");
}

KEEP static void land(int depth, int sig)
{
	ENTER("land");
	if (sigsetjmp(landing, 1)) {
		LANDED();
		sink = helper(sig);
	} else if (sig == SIGSEGV) {
		fault(depth);
	} else {
		raise_from(depth, sig);
	}
	sink = helper(1);
	LEAVE("land");
}

KEEP static void all_cases(void)
{
	ENTER("all_cases");
	install(SIGUSR1, on_plain, 0);
	raise_from(0, SIGUSR1);
	raise_from(4, SIGUSR1);
	install(SIGUSR2, on_nesting, 0);
	raise_from(2, SIGUSR2);
	install(SIGUSR2, on_nesting, SA_ONSTACK);
	raise_from(2, SIGUSR2);
	install(SIGUSR1, on_plain, SA_ONSTACK);
	raise_from(1, SIGUSR1);
	raise_from(1, SIGUSR2);
	for (int i = 0; i < 3; i++) {
		install(SIGUSR2, on_leaving, i & 1 ? SA_ONSTACK : 0);
		land(i, SIGUSR2);
		land(5, SIGUSR2);
		install(SIGSEGV, on_leaving, i & 1 ? SA_ONSTACK : 0);
		land(i, SIGSEGV);
		land(20, SIGSEGV);
	}
	LEAVE("all_cases");
}

KEEP static void *in_a_thread(void *arg)
{
	ENTER("in_a_thread");
	use_alternate_stack(arg, 65536);
	all_cases();
	LEAVE("in_a_thread");
	return NULL;
}

int main(void)
{
	ENTER("main");
	/* One alternate stack below the thread's stack and one above. */
	char *low = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char in_data[65536];
	pthread_t thread;

	forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	use_alternate_stack(low, 65536);
	all_cases();
	use_alternate_stack(in_data, 65536);
	all_cases();
	pthread_create(&thread, NULL, in_a_thread, malloc(65536));
	pthread_join(thread, NULL);
	LEAVE("main");
	return 0;
}
