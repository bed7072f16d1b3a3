/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting threads go: step 6 of stop.h, and what a stop had to leave behind.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "hotpatcher/guard.h"
#include "hotpatcher/stay.h"
#include "hotpatcher/stop_internal.h"
#include "hotpatcher/tick.h"

#define RELEASE_NS                                                                                           \
	50000000ull /* how long threads that were not stopped yet are waited for in order to let them go */

/* Children whose parent was killed before it could tell of them, and threads of targets that are closed: whatever is stopped now is
 * ours by mistake, since nothing is stopped on purpose when this is called. */
static void let_strays_go(void)
{
	for (;;) {
		siginfo_t info = {0};
		int status;

		/* a look first: what is no tracee is for somebody else to wait for */
		if (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0 || !info.si_pid ||
		    info.si_code != CLD_TRAPPED)
			return;
		if (waitpid(info.si_pid, &status, __WALL | WNOHANG) != info.si_pid)
			return;
		if (WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, info.si_pid, 0, ip_stop_signal_of(status));
	}
}

void ip_stop_let_go(struct ip_target *target)
{
	size_t left = 0;

	for (size_t i = 0; i < target->nheld; i++) {
		pid_t tid = target->held[i], got;
		int status;

		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got == 0)
			target->held[left++] = tid;
		else if (got == tid && WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, tid, 0, ip_stop_signal_of(status));
		else if (got == tid && tid == target->pid) {
			target->exited = true;
			target->exit_status = status;
		}
	}
	target->nheld = left;
	let_strays_go();
	if (!left && target->stay) {
		target->stay = false;
		ip_stay_end();
	}
}

/* Before step 6, after a failure only: DETACH needs a stopped thread. Those that do not stop are kept for later. */
static void catch_up(struct ip_stop *stop)
{
	stop->deadline_ns = ip_now_ns() + RELEASE_NS;
	ip_tick_start();
	for (size_t i = 0; i < stop->n; i++)
		if (!stop->threads[i].stopped && !stop->threads[i].gone && !stop->threads[i].asked)
			ptrace(PTRACE_INTERRUPT, stop->threads[i].tid, 0, 0);
	for (size_t i = 0; i < stop->n; i++)
		if (ip_stop_wait_for(stop, i) < 0) {
			ip_stop_hold(stop->target, stop->threads[i].tid);
			stop->threads[i].gone = true;
		}
	ip_tick_stop();
}

/* Step 6 for one thread. One that was killed meanwhile must be reaped, or it stays a zombie of ours: until then the process cannot
 * end, nor exec. */
static void release(struct ip_stop *stop, struct ip_stopped_thread *t)
{
	int status;

	ip_guard_restore(t->raised);
	t->raised = 0;
	if (!t->gone)
		ip_restart_release(t->tid, &t->left);
	if (t->gone || ptrace(PTRACE_DETACH, t->tid, 0, t->signal) == 0 || errno != ESRCH)
		return;
	for (int i = 0; i < 4000 && !t->gone; i++) {
		const struct timespec nap = {.tv_nsec = 500000};
		pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

		if (got == t->tid && !WIFSTOPPED(status))
			ip_stop_note(stop, t, status);
		else if (got < 0)
			t->gone = true;
		else
			nanosleep(&nap, NULL);
	}
}

uint64_t ip_stop_end(struct ip_stop *stop)
{
	uint64_t length;
	bool all = true;

	for (size_t i = 0; i < stop->n; i++)
		all &= stop->threads[i].stopped || stop->threads[i].gone;
	if (!all)
		catch_up(stop);
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].running)
			release(stop, &stop->threads[i]);
	if (stop->running_began_ns)
		stop->running_ns = ip_now_ns() - stop->running_began_ns;
	for (size_t i = 0; i < stop->n; i++)
		if (!stop->threads[i].running)
			release(stop, &stop->threads[i]);
	length = stop->began_ns ? ip_now_ns() - stop->began_ns : 0;
	ip_boost_end(&stop->boost);
	ip_sleeps_clear(&stop->sleeps);
	free(stop->threads);
	free(stop->kin);
	stop->threads = NULL;
	stop->kin = NULL;
	stop->n = stop->capacity = stop->nkin = 0;
	if (stop->target->nheld)
		ip_stop_let_go(stop->target);
	if (stop->target->nheld && !stop->target->stay)
		stop->target->stay = true; /* until they are ours no more */
	else
		ip_stay_end();
	return length;
}
