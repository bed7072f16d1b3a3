/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signal handlers that come at any moment, hooks and log included: two timers at a high rate, one
 * on an alternate stack.
 *
 *   tree_timers ROUNDS [jump]
 *
 * Handlers are called on_...; they block each other. With "jump" each handler leaves by siglongjmp
 * to the loop in main. siglongjmp lets signals come before it has left the handler's stack, so a
 * signal that waits by then has its handler on top of the one that leaves. Some handlers take
 * longer than the timer's interval, so that this happens on any machine. Where the machine is so
 * slow that handlers leave no time for the loop, the timers become slow, too.
 */
#define _GNU_SOURCE
#include "tree_log.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile int sink;
static volatile int handled;
static sigjmp_buf landing;
static volatile int jump;
static timer_t timers[2];
static int ntimers;

#define MANY	10000 /* handlers */
#define SLOW_NS 5000000l
#define JUMP_NS 200000l

/* In a handler: both calls are safe there. */
QUIET static void note_handled(void)
{
	static const struct itimerspec slow = {{0, SLOW_NS}, {0, SLOW_NS}};

	if (++handled == MANY)
		for (int i = 0; i < ntimers; i++)
			timer_settime(timers[i], 0, &slow, NULL);
}

KEEP static int handler_helper(int x)
{
	ENTER("handler_helper");
	LEAVE("handler_helper");
	return x;
}

QUIET static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

/* Three handlers of sixteen: the next signal waits when they leave. */
QUIET static void linger(void)
{
	long begin = now_ns();

	if (handled % 16 < 3)
		while (now_ns() - begin < JUMP_NS)
			;
}

KEEP static void on_tick(int sig)
{
	ENTER("on_tick");
	note_handled();
	sink = handler_helper(sig);
	if (jump) {
		linger();
		siglongjmp(landing, 1); /* the frame is there until LANDED() */
	}
	LEAVE("on_tick");
}

KEEP static void on_tock(int sig)
{
	ENTER("on_tock");
	note_handled();
	sink = handler_helper(sig) + handler_helper(sig);
	raise(SIGUSR1);
	LEAVE("on_tock");
}

KEEP static void on_raised(int sig)
{
	ENTER("on_raised");
	sink = handler_helper(sig);
	LEAVE("on_raised");
}

KEEP static int leaf(int x)
{
	ENTER("leaf");
	LEAVE("leaf");
	return x + 1;
}

KEEP static int branch(int n)
{
	ENTER("branch");
	int r = n ? branch(n - 1) + leaf(n) : leaf(0);

	LEAVE("branch");
	return r;
}

QUIET static void start_timer(int sig, void (*handler)(int), int flags, long interval_ns)
{
	struct sigaction sa = {.sa_handler = handler, .sa_flags = flags | SA_RESTART};
	struct sigevent se = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = sig};
	struct itimerspec it = {{0, interval_ns}, {0, interval_ns}};

	sigaddset(&sa.sa_mask, SIGRTMIN);
	sigaddset(&sa.sa_mask, SIGRTMIN + 1);
	if (sigaction(sig, &sa, NULL) || timer_create(CLOCK_MONOTONIC, &se, &timers[ntimers]) ||
	    timer_settime(timers[ntimers++], 0, &it, NULL))
		abort();
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
	volatile int done = 0;
	static char stack[1 << 18];
	stack_t ss = {.ss_sp = stack, .ss_size = sizeof(stack)};

	ENTER("main");
	jump = argc > 2 && !strcmp(argv[2], "jump");
	sigaltstack(&ss, NULL);
	signal(SIGUSR1, on_raised);
	if (jump && sigsetjmp(landing, 1))
		LANDED();
	else
		start_timer(SIGRTMIN, on_tick, jump ? SA_ONSTACK : 0, jump ? JUMP_NS : 50000);
	if (!jump)
		start_timer(SIGRTMIN + 1, on_tock, SA_ONSTACK, 70000);
	/* A volatile count survives the jumps. */
	static volatile int round;

	while (round < rounds) {
		round++;
		sink = branch(8);
		done++;
	}
	signal(SIGRTMIN, SIG_IGN);
	signal(SIGRTMIN + 1, SIG_IGN);
	LEAVE("main");
	fprintf(stderr, "handled %d\n", handled);
	return handled > 0 && (jump || done == rounds) ? 0 : 1;
}
