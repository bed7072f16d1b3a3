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
static struct sigaction before[3]; /* theirs */
static volatile sig_atomic_t noted[3];

static void on_continue(int number)
{
}

static void on_stop(int number)
{
	for (size_t i = 0; i < 3; i++)
		noted[i] |= numbers[i] == number;
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
	const struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};

	if (depth++)
		return;
	for (size_t i = 0; i < 3; i++) { /* 1 */
		noted[i] = 0;
		if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
	}
	if (make())
		timer_settime(timer, 0, &from, NULL); /* 2 */
}

void ip_stay_end(void)
{
	const struct itimerspec never = {0};
	sigset_t these, mask;

	if (!depth || --depth)
		return;
	if (owner == getpid())
		timer_settime(timer, 0, &never, NULL);
	/* 3. One that comes meanwhile is the same as the one that was noted: both stop us once, when they are let in */
	sigemptyset(&these);
	for (size_t i = 0; i < 3; i++)
		sigaddset(&these, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &these, &mask);
	for (size_t i = 0; i < 3; i++) {
		if (before[i].sa_handler == SIG_DFL)
			sigaction(numbers[i], &before[i], NULL);
		if (noted[i])
			raise(numbers[i]);
	}
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}
