/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job control. The steps are told in job_control.h; the comments here name them.
 */
#include "hotpatcher/ptrace/job_control.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define FIRST_MAX_NS 100000000ull
#define EVERY_NS     20000000l

static timer_t timers[2];
static pid_t owner; /* the process that has made the timers; 0: no process has */
static volatile unsigned depth;
static const int numbers[] = {SIGTSTP, SIGTTIN, SIGTTOU};
static struct sigaction before[3]; /* the actions of these signals before */
static volatile sig_atomic_t noted[3];

/* Starts both timers, so that they alternate. */
static void start_timers(uint64_t first_ns)
{
	for (unsigned i = 0; i < 2; i++) {
		const struct itimerspec from = {{.tv_nsec = 2 * EVERY_NS},
						{.tv_nsec = first_ns + i * EVERY_NS}};

		timer_settime(timers[i], 0, &from, NULL);
	}
}

/* Step 2: starts both timers anew, since the timer of a SIGCONT that was removed while it was
 * pending never sends one again by itself. */
static void on_continue(int number)
{
	int error = errno;

	if (depth && owner == getpid())
		start_timers(EVERY_NS);
	errno = error;
}

static void on_stop(int number)
{
	for (size_t i = 0; i < 3; i++)
		noted[i] |= numbers[i] == number;
}

/* Makes the timers. The kernel may give up a timer whose signal is ignored: so SIGCONT has a
 * handler. A child does not inherit timers. */
static bool make(void)
{
	const struct sigaction action = {.sa_handler = on_continue, .sa_flags = SA_RESTART};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT};

	if (owner == getpid())
		return true;
	if (sigaction(SIGCONT, &action, NULL) < 0 ||
	    timer_create(CLOCK_MONOTONIC, &event, &timers[0]) < 0)
		return false;
	if (timer_create(CLOCK_MONOTONIC, &event, &timers[1]) < 0) {
		timer_delete(timers[0]);
		return false;
	}
	owner = getpid();
	return true;
}

void ip_job_control_begin(uint64_t deadline_ns)
{
	uint64_t first = deadline_ns < FIRST_MAX_NS ? deadline_ns + 1 : FIRST_MAX_NS;
	const struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};

	if (depth++)
		return;
	for (size_t i = 0; i < 3; i++) { /* 1 */
		noted[i] = 0;
		if (sigaction(numbers[i], NULL, &before[i]) == 0 && before[i].sa_handler == SIG_DFL)
			sigaction(numbers[i], &action, NULL);
	}
	if (make())
		start_timers(first); /* 2 */
}

void ip_job_control_end(void)
{
	const struct itimerspec never = {0};
	sigset_t these, mask;

	if (!depth || --depth)
		return;
	for (size_t i = 0; i < 2 && owner == getpid(); i++)
		timer_settime(timers[i], 0, &never, NULL);
	/* 3. A signal that comes meanwhile is the same as the one that was noted: both stop iprobe
	 * once, when they are unblocked */
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
