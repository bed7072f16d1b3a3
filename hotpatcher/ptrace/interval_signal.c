/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interval signal. See interval_signal.h.
 */
#include "hotpatcher/ptrace/interval_signal.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static timer_t timer;
static pid_t owner; /* the thread that has made the timer; 0: no thread has */

static void (*what)(void *);
static void *whose;

static void on_tick(int number)
{
	if (what)
		what(whose);
}

/* Makes the timer, unless this thread has made it. A child does not inherit timers. */
static bool make(void)
{
	const struct sigaction action = {.sa_handler = on_tick}; /* no SA_RESTART */
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMAX - 1};
	sigset_t ours;

	if (owner == gettid())
		return true;
	event._sigev_un._tid = gettid();
	if (sigaction(SIGRTMAX - 1, &action, NULL) < 0) /* without a handler it would end iprobe */
		return false;
	sigemptyset(&ours);
	sigaddset(&ours, SIGRTMAX - 1);
	sigprocmask(SIG_UNBLOCK, &ours, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
		return false;
	owner = gettid();
	return true;
}

void ip_interval_signal_calls(void (*function)(void *data), void *data)
{
	what = NULL;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	whose = data;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	what = function;
}

void ip_interval_signal_start(uint64_t every_ns)
{
	const struct itimerspec every = {{.tv_nsec = every_ns}, {.tv_nsec = every_ns}};

	if (make())
		timer_settime(timer, 0, &every, NULL);
}

void ip_interval_signal_stop(void)
{
	const struct itimerspec never = {0};

	if (owner == gettid())
		timer_settime(timer, 0, &never, NULL);
}
