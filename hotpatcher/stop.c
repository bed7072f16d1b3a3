/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stop. The steps are told in stop.h; the comments here name them. Finding the threads: stop_gather.c; letting them go:
 * stop_release.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/clock.h"
#include "hotpatcher/guard.h"
#include "hotpatcher/permit.h"
#include "hotpatcher/stay.h"
#include "hotpatcher/stop_internal.h"
#include "hotpatcher/tick.h"

#define PASSES 4 /* listings before the first INTERRUPT, at most: a target may make threads all the time */

uint64_t ip_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

void ip_stop_order(struct ip_stopped_thread *threads, size_t n)
{
	struct ip_stopped_thread *running = calloc(n ? n : 1, sizeof(*running));
	size_t blocked = 0, nrunning = 0;

	if (!running)
		return; /* in any order, then */
	for (size_t i = 0; i < n; i++)
		if (threads[i].running)
			running[nrunning++] = threads[i];
		else
			threads[blocked++] = threads[i];
	memcpy(threads + blocked, running, nrunning * sizeof(*running));
	free(running);
}

/* Why a thread may not stop. */
static const char *why_late(pid_t tid)
{
	char name[64], where[64] = "";

	snprintf(name, sizeof(name), "/proc/%d/wchan", tid);
	_cleanup_fclose_ FILE *file = fopen(name, "re");
	if (file && fgets(where, sizeof(where), file) &&
	    (strstr(where, "refrigerator") || strstr(where, "freez")))
		return "it is frozen by its cgroup's freezer: thaw that first";
	return "uninterruptible sleep or vfork? Try again";
}

/* Waits for thread i. 0; -1: the deadline has passed. */
int ip_stop_wait_for(struct ip_stop *stop, size_t i)
{
	struct ip_stopped_thread *t = &stop->threads[i];

	while (!t->stopped && !t->gone) {
		int status;
		pid_t got = waitpid(t->tid, &status, __WALL);

		if (got == t->tid)
			ip_stop_note(stop, t, status);
		else if (errno == ECHILD)
			t->gone = true;
		else if (ip_now_ns() > stop->deadline_ns)
			return -1;
		else if (
			ip_stop_has_ended(
				t->pid,
				t->tid)) { /* a leader, which its tracer sees end with the last thread only */
			t->gone = true;
			ip_stop_hold(stop->target, t->tid);
		}
		t = &stop->threads[i];
	}
	return 0;
}

/* Step 3, for the running or the blocked threads. */
static int stop_some(struct ip_stop *stop, bool running)
{
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (t->stopped || t->gone || t->running != running)
			continue;
		if (!stop->began_ns) {
			stop->began_ns = ip_now_ns();
			stop->began_tsc = ip_clock_now();
		}
		if (running && !stop->running_began_ns)
			stop->running_began_ns = ip_now_ns();
		if (stop->lend && !t->raised)
			t->raised = ip_guard_raise(t->tid);
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		t->asked = true;
	}
	for (size_t i = 0; i < stop->n; i++) {
		if (stop->threads[i].running != running || ip_stop_wait_for(stop, i) == 0)
			continue;
		stop->late = true;
		return ip_error("pid %d: thread %d did not stop in time: nothing was changed (%s)",
				stop->target->pid, stop->threads[i].tid, why_late(stop->threads[i].tid));
	}
	return 0;
}

static int stop_all(struct ip_stop *stop)
{
	int ret;

	ip_tick_start();
	ret = stop_some(stop, false) < 0 ? -1 : stop_some(stop, true);
	ip_tick_stop();
	return ret;
}

static int gather(struct ip_stop *stop)
{
	int found = 0;

	if (ip_stop_find_kin(stop) < 0)
		return -1;
	ip_sleeps_look(stop->target->pid, 0, stop->target->arch->bits == 32, &stop->sleeps); /* 0 */
	for (int i = 0; i < PASSES && (found = ip_stop_seize_new(stop)) > 0; i++)
		;
	if (found < 0)
		return -1;
	ip_stop_take_held(stop);
	ip_stop_order(stop->threads, stop->n);
	stop->lend = ip_boost_begin(&stop->boost) && ip_guard_begin();
	do {
		if (stop_all(stop) < 0)
			return -1;
	} while (!ip_stop_is_complete(stop) && (found = ip_stop_seize_new(stop)) > 0);
	if (found < 0)
		return -1;
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].stopped)
			return 0;
	return ip_error("pid %d has ended", stop->target->pid);
}

/* Nobody can change its credentials any more, and no thread's number can come to mean another: what was allowed when we looked must be so
 * now (permit.h). A thread that has ended is nobody's. */
static int check_permit(const struct ip_stop *stop)
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].stopped && ip_permit_check_thread(stop->threads[i].pid, stop->threads[i].tid) < 0)
			return -1;
	return 0;
}

int ip_stop_begin(struct ip_target *target, uint64_t deadline_ns, struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target, .deadline_ns = ip_now_ns() + deadline_ns};
	ip_stay_begin(deadline_ns);
	if (gather(ret) == 0 && check_permit(ret) == 0)
		return 0;
	ip_stop_adopt_strays(ret);
	ip_stop_end(ret);
	return -1;
}

int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target, .deadline_ns = ip_now_ns() + deadline_ns};
	ip_sleeps_look(target->pid, tid, target->arch->bits == 32, &ret->sleeps);
	ip_stay_begin(deadline_ns);
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) < 0) {
		int error = errno;

		ip_stay_end();
		ip_sleeps_clear(&ret->sleeps);
		errno = error;
		return -1;
	}
	if (ip_stop_add(ret, target->pid, tid, false) == 0 && stop_all(ret) == 0 && ret->threads[0].stopped &&
	    check_permit(ret) == 0)
		return 0;
	ip_stop_end(ret);
	errno = ESRCH;
	return -1;
}

int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc)
{
	struct ip_stop stop;

	if (ip_stop_one(target, tid, deadline_ns, &stop) < 0)
		return -1;
	*ret_pc = stop.threads[0].pc;
	ip_stop_end(&stop);
	return 0;
}
