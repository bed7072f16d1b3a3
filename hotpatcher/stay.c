/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps are told in stay.h; the comments here name them.
 */
#include "hotpatcher/stay.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MAX_NS 100000000ull
#define EVERY_NS     20000000l

static timer_t timer;
static pid_t owner; /* the process that has made the timer; 0: none has */
static unsigned depth;
static const int numbers[] = {SIGTSTP, SIGTTIN, SIGTTOU};
static sigset_t blocked; /* by us */

static void on_continue(int number)
{
}

/* A kernel gives up a timer whose signal is ignored: so there is a handler. Timers do not go over to children. */
static bool make(void)
{
	const struct sigaction action = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};

	if (owner == getpid())
		return true;
	if (sigaction(SIGCONT, &action, NULL) < 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
		return false;
	owner = getpid();
	return true;
}

void ip_stay_begin(uint64_t deadline_ns)
{
	uint64_t first = deadline_ns < FIRST_MAX_NS ? deadline_ns + 1 : FIRST_MAX_NS;
	const struct itimerspec from = {{.tv_nsec = EVERY_NS}, {.tv_nsec = first}};
	sigset_t before;

	if (depth++)
		return;
	sigprocmask(SIG_BLOCK, NULL, &before);
	sigemptyset(&blocked);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!sigismember(&before, numbers[i]))
			sigaddset(&blocked, numbers[i]);
	sigprocmask(SIG_BLOCK, &blocked, NULL); /* 1 */
	if (make())
		timer_settime(timer, 0, &from, NULL); /* 2 */
}

void ip_stay_end(void)
{
	const struct itimerspec never = {0};

	if (!depth || --depth)
		return;
	if (owner == getpid())
		timer_settime(timer, 0, &never, NULL);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL); /* 3: what has waited stops us here */
}
