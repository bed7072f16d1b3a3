/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stop. The steps are told in stop.h; the comments here name them. stop_gather.c finds the
 * threads; stop_release.c lets them go.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/proc.h"
#include "common/units.h"
#include "hotpatcher/ptrace/interval_signal.h"
#include "hotpatcher/ptrace/job_control.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

#define RELEASE_NS	10000u	/* time to let one thread go */
#define TICK_MIN_NS	100000u /* least interval of the signal while a thread is waited for */
#define THREAD_LEAST_NS 8000	/* least time to stop one thread and let it go */
/* the most listings before the first INTERRUPT: a target may make threads all the time */
#define PASSES 4

void ip_stop_order(struct ip_stopped_thread *threads, size_t n)
{
	struct ip_stopped_thread *running = n ? calloc(n, sizeof(*running)) : NULL;
	size_t blocked = 0, nrunning = 0;

	if (!running)
		return; /* there is none, or they stay in any order */
	for (size_t i = 0; i < n; i++)
		if (threads[i].running)
			running[nrunning++] = threads[i];
		else
			threads[blocked++] = threads[i];
	memcpy(threads + blocked, running, nrunning * sizeof(*running));
	free(running);
}

const char *ip_stop_why_late(pid_t pid, pid_t tid)
{
	char name[64], where[64] = "";

	snprintf(name, sizeof(name), "/proc/%d/wchan", tid);
	_cleanup_fclose_ FILE *file = fopen(name, "re");
	if (file && fgets(where, sizeof(where), file) &&
	    (strstr(where, "refrigerator") || strstr(where, "freez")))
		return "it is frozen by its cgroup's freezer: thaw that first";
	return ip_stop_is_asleep(pid, tid) ? "uninterruptible sleep or vfork?"
					   : "it got no CPU in time";
}

/* The part of the time allowed that gathering may take: the rest is for the caller, and for letting
 * the threads go. */
static uint64_t gather_ns(const struct ip_stop *stop)
{
	const uint64_t rest = stop->reserve_ns + stop->max_ns / 16 + stop->n * RELEASE_NS,
		       least = stop->max_ns / 4;

	return rest + least < stop->max_ns ? stop->max_ns - rest : least;
}

static bool is_late(const struct ip_stop *stop)
{
	return stop->began_ns && ip_now_ns() > stop->deadline_ns;
}

/* Refuses a stop that cannot be done in time whatever happens. */
static int check_limit(const struct ip_stop *stop)
{
	const pid_t pid = stop->target->pid;
	const long threads = ip_proc_status(pid, "Threads");
	char limit[16];

	if (threads <= 0 || threads * THREAD_LEAST_NS <= stop->max_ns)
		return 0;
	return ip_error("pid %d: %ld thread%s cannot be stopped and let go within %s: allow more "
			"(--max-stop)",
			pid, threads, threads == 1 ? "" : "s", ip_format_ns(stop->max_ns, limit));
}

static void note_late(struct ip_stop *stop, pid_t asleep)
{
	stop->late = true;
	ip_stops_of(stop->target)->asleep = asleep;
	ip_stops_of(stop->target)->starved = !asleep;
	ip_stops_of(stop->target)->nstarved += !asleep;
}

static int refuse_late(struct ip_stop *stop)
{
	note_late(stop, 0);
	return ip_error(
		"pid %d: its threads could not be gathered in time: nothing was changed; try again",
		stop->target->pid);
}

/* Step 3, for the blocked threads, the running ones, or all: INTERRUPTs them. */
static int interrupt(struct ip_stop *stop, bool blocked, bool running)
{
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (t->stopped || t->gone || t->asked || !(t->running ? running : blocked))
			continue;
		if (!stop->began_ns) {
			stop->began_ns = ip_now_ns();
			stop->began_tsc = ip_clock_now();
			stop->deadline_ns = stop->began_ns + gather_ns(stop);
		}
		if (t->running && !stop->running_began_ns)
			stop->running_began_ns = ip_now_ns();
		if (stop->lend && !t->raised)
			t->raised = ip_priority_guard_raise(t->tid);
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		t->asked = true;
		if (is_late(stop))
			return refuse_late(stop);
	}
	return 0;
}

/* Waits for thread i. 0; -1: the deadline has passed, or the thread is asleep and a quarter of the
 * time is over. */
static int wait_for(struct ip_stop *stop, size_t i)
{
	struct ip_stopped_thread *t = &stop->threads[i];

	while (!t->stopped && !t->gone) {
		int status;
		pid_t got = waitpid(t->tid, &status, __WALL);

		if (got == t->tid) {
			ip_stop_note(stop, t, status);
		} else if (errno == ECHILD) {
			t->gone = true;
			/* a thread that executes a program has become the leader: it will report
			 * the exec, and must be let go then */
			if (t->tid != t->pid)
				ip_stop_hold(stop->target, t->pid);
		} else if (ip_now_ns() > stop->deadline_ns ||
			   (ip_now_ns() - stop->began_ns > stop->max_ns / 4 &&
			    ip_stop_is_asleep(t->pid, t->tid))) {
			return -1;
		} else if (ip_stop_has_ended(t->pid, t->tid)) {
			/* a leader: its tracer sees it end only with the last thread */
			t->gone = true;
			ip_stop_hold(stop->target, t->tid);
		} else {
			ip_stop_reap(stop);
			/* 3b; if it is late by now, the next look sees it */
			if (stop->lend && !t->running && ip_stop_is_asleep(t->pid, t->tid))
				interrupt(stop, false, true);
		}
		t = &stop->threads[i];
	}
	return 0;
}

/* Step 3, for the blocked threads, the running ones, or all. */
static int stop_some(struct ip_stop *stop, bool blocked, bool running)
{
	if (interrupt(stop, blocked, running) < 0)
		return -1;
	for (size_t i = 0; i < stop->n; i++) {
		const struct ip_stopped_thread *t = &stop->threads[i];

		if (!(t->running ? running : blocked))
			continue;
		if (wait_for(stop, i) == 0) {
			if (is_late(stop))
				return refuse_late(stop);
			continue;
		}
		t = &stop->threads[i];
		note_late(stop, ip_stop_is_asleep(t->pid, t->tid) ? t->tid : 0);
		return ip_error("pid %d: thread %s did not stop in time: nothing was changed (%s); "
				"try again",
				stop->target->pid, IP_THREAD_TEXT(t->tid),
				ip_stop_why_late(t->pid, t->tid));
	}
	return 0;
}

static int stop_all(struct ip_stop *stop)
{
	/* without lent priority blocked and running threads each have to wait for CPUs: if all are
	 * INTERRUPTed at once, there is only one such wait */
	const bool at_once = !stop->lend && ip_stops_of(stop->target)->nstarved;
	uint64_t interval_signal = stop->max_ns / 16;
	int ret;

	interval_signal = interval_signal > IP_INTERVAL_SIGNAL_NS ? IP_INTERVAL_SIGNAL_NS
			  : interval_signal < TICK_MIN_NS	  ? TICK_MIN_NS
								  : interval_signal;
	ip_interval_signal_start(interval_signal);
	if (at_once)
		ret = stop_some(stop, true, true);
	else
		ret = stop_some(stop, true, false) < 0 ? -1 : stop_some(stop, false, true);
	ip_interval_signal_stop();
	return ret;
}

static int gather(struct ip_stop *stop)
{
	int found = 0;

	if (ip_target_image_is_gone(stop->target)) /* then no thread needs to be stopped */
		return ip_stop_refuse_image(stop);
	if (check_limit(stop) < 0 || ip_stop_await_asleep(stop) < 0 ||
	    ip_stop_find_shared_mm(stop) < 0)
		return -1;
	/* 0 */
	ip_syscall_waits_look(stop->target->pid, 0, stop->target->arch->bits == 32, &stop->waits);
	for (int i = 0; i < PASSES && (found = ip_stop_seize_new(stop)) > 0; i++)
		;
	if (found < 0)
		return -1;
	ip_stop_take_held(stop);
	ip_stop_order(stop->threads, stop->n);
	stop->lend = ip_priority_begin(&stop->priority) && ip_priority_guard_begin();
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

int ip_stop_begin(struct ip_target *target, uint64_t max_ns, uint64_t reserve_ns,
		  struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target, .max_ns = max_ns, .reserve_ns = reserve_ns};
	if (ip_stop_rest_ns(target)) {
		ret->late = true;
		return ip_error("pid %d: it was stopped in vain just now, and is to run for a "
				"while before the next try: nothing was changed; try again",
				target->pid);
	}
	ip_stops_of(target)->max_stop_ns = max_ns;
	ip_job_control_begin(max_ns);
	ip_stops_of(target)->asleep = 0;
	ip_stops_of(target)->starved = false;
	if (gather(ret) == 0 && ip_stop_decide(ret, true) == 0) {
		ret->whole = true;
		ip_stops_of(target)->nstarved = 0;
		ip_stop_change(ret);
		return 0;
	}
	ret->failed = true;
	ip_stop_end(ret);
	return -1;
}

int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target, .max_ns = deadline_ns};
	/* a tracee that still runs could execute a program, and take the leader's number in the
	 * middle of the stop */
	if (tid == target->pid && ip_stops_of(target)->nheld) {
		errno = ESRCH;
		return -1;
	}
	/* the thread would have to be left behind, and would stand alone when it wakes up */
	if (ip_stop_is_asleep(target->pid, tid)) {
		errno = EAGAIN;
		return -1;
	}
	ip_syscall_waits_look(target->pid, tid, target->arch->bits == 32, &ret->waits);
	ip_job_control_begin(deadline_ns);
	ip_interval_signal_start(IP_INTERVAL_SIGNAL_NS);
	if (ip_stop_seize(ret, tid, PTRACE_O_TRACEEXEC) < 0) {
		int error = errno;

		ip_interval_signal_stop();

		ip_job_control_end();
		ip_syscall_waits_clear(&ret->waits);
		errno = error;
		return -1;
	}
	if (ip_stop_add(ret, target->pid, tid, false) == 0 && stop_all(ret) == 0 &&
	    ret->threads[0].stopped && ip_stop_decide(ret, false) == 0) {
		ip_stop_change(ret);
		return 0;
	}
	ip_stop_end_look(ret);
	errno = ESRCH;
	return -1;
}

int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc)
{
	struct ip_stop stop;

	if (ip_stop_one(target, tid, deadline_ns, &stop) < 0)
		return -1;
	*ret_pc = stop.threads[0].pc;
	ip_stop_end_look(&stop);
	return 0;
}
