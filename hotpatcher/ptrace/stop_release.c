/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Letting threads go: step 10 of stop.h, and the threads that a stop had to leave behind.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "access/delegation.h"
#include "common/clock.h"
#include "common/notice.h"
#include "common/proc.h"
#include "hotpatcher/process/image.h"
#include "hotpatcher/ptrace/interval_signal.h"
#include "hotpatcher/ptrace/job_control.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

#define HELD_LOOK_NS  1000000ull
#define REST_LOOK_NS  5000000ull
#define SECOND_NS     1000000000ull
#define MOST_A_SECOND 5 /* stops of the length allowed, or as much time in shorter ones */
/* after a try the target runs for so many times as long as the try has stopped it */
#define REST		 3
#define ASLEEP_REST	 19		/* the same if a thread is asleep */
#define TIMEOUT_NS	 60000000000ull /* if a thread is asleep, or got no CPU */
#define OTHER_TIMEOUT_NS 5000000000ull
#define DETACH_TRIES	 8
#define SAY_NS		 1000000000ull
#define LATE_LOOK_NS	 200000l
#define RELEASE_NS	 50000000ull /* how long to wait for threads that were not stopped yet */

int ip_stop_detach(pid_t tid, int signal_number)
{
	for (int i = 0; i < DETACH_TRIES; i++)
		if (ptrace(PTRACE_DETACH, tid, 0, signal_number) == 0)
			return 0;
	if (errno == ESRCH)
		return -1;
	ptrace(PTRACE_CONT, tid, 0, signal_number);
	return 1;
}

/* Lets go children whose parent was killed before it could report them, and threads of targets that
 * are closed. Any tracee that is stopped now is stopped by mistake, since no thread is stopped on
 * purpose when this is called. */
static void let_strays_go(void)
{
	for (;;) {
		siginfo_t info = {0};
		int status;

		/* look first: another part of iprobe waits for processes that are no tracees */
		if (waitid(P_ALL, 0, &info, WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0 ||
		    !info.si_pid || info.si_code != CLD_TRAPPED)
			return;
		if (waitpid(info.si_pid, &status, __WALL | WNOHANG) != info.si_pid)
			return;
		if (!WIFSTOPPED(status))
			continue;
		if (ip_delegation_check_thread(info.si_pid, info.si_pid) == 0)
			ip_restart_plainly(NULL, info.si_pid, status);
		ip_stop_detach(info.si_pid, ip_stop_signal_of(status));
	}
}

/* Lets go a thread about which nothing was decided. Nothing is written to it if its image is
 * another one that iprobe may not trace. Returns as ip_stop_detach(). */
static int let_go(const struct ip_target *target, pid_t tid, int status)
{
	if (ip_image_is_same(target, tid) || ip_delegation_check_thread(target->pid, tid) == 0)
		ip_restart_plainly(target, tid, status);
	return ip_stop_detach(tid, ip_stop_signal_of(status));
}

void ip_stop_let_go(struct ip_target *target)
{
	struct ip_stop_record record = {
		.kind = "late", .tsc = ip_clock_now(), .threads = 1, .failed = true};
	const uint64_t looked = ip_stops_of(target)->held_looked_ns;
	size_t left = 0;

	ip_stops_of(target)->held_looked_ns = ip_now_ns();
	for (size_t i = 0; i < ip_stops_of(target)->nheld; i++) {
		pid_t tid = ip_stops_of(target)->held[i], got;
		int status;

		got = waitpid(tid, &status, __WALL | WNOHANG);
		if (got == 0 ||
		    (got == tid && WIFSTOPPED(status) && let_go(target, tid, status) > 0))
			ip_stops_of(target)->held[left++] = tid;
		if (got == tid && WIFSTOPPED(status)) {
			/* it has stood for no longer than since the last look */
			record.ns = ip_now_ns() - looked;
			ip_stop_was_in_vain(target, &record);
		} else if (got == tid && tid == target->pid) {
			target->exited = true;
			target->exit_status = status;
		}
	}
	ip_stops_of(target)->nheld = left;
	let_strays_go();
	if (!left && ip_stops_of(target)->job_control) {
		ip_stops_of(target)->job_control = false;
		ip_job_control_end();
	}
}

void ip_stop_was_in_vain(struct ip_target *target, const struct ip_stop_record *record)
{
	/* before the first stop of all threads, when iprobe looks for a thread to borrow, no limit
	 * is known yet from which to count five stops a second */
	const uint64_t now = ip_now_ns(),
		       period = ip_stops_of(target)->max_stop_ns
					? SECOND_NS / MOST_A_SECOND * record->ns /
						  ip_stops_of(target)->max_stop_ns
					: 0;
	uint64_t rest = REST * record->ns;

	if (period > record->ns + rest)
		rest = period - record->ns;
	if (ip_stops_of(target)->rest_until_ns < now)
		ip_stops_of(target)->rest_until_ns = now;
	ip_stops_of(target)->rest_until_ns += rest;
	if (ip_stops_of(target)->asleep) {
		ip_stops_of(target)->sleeper = ip_stops_of(target)->asleep;
		if (ip_stops_of(target)->sleeper_rest_until_ns < now)
			ip_stops_of(target)->sleeper_rest_until_ns = now;
		ip_stops_of(target)->sleeper_rest_until_ns += ASLEEP_REST * record->ns;
	}
	ip_stop_log_add(&ip_stops_of(target)->log, record);
}

uint64_t ip_stop_rest_ns(const struct ip_target *target)
{
	const uint64_t now = ip_now_ns();
	uint64_t until = ip_stops_of(target)->rest_until_ns;

	/* once the thread is awake, a stop can succeed again */
	if (ip_stops_of(target)->sleeper_rest_until_ns > until &&
	    ip_stops_of(target)->sleeper_rest_until_ns > now &&
	    ip_stop_is_asleep(target->pid, ip_stops_of(target)->sleeper))
		until = ip_stops_of(target)->sleeper_rest_until_ns;
	return until > now ? until - now : 0;
}

bool ip_stop_go_on(const struct ip_target *target, uint64_t began_ns, bool *said)
{
	const uint64_t ns = ip_now_ns() - began_ns;

	/* a try that came too early, since one more thread had stopped late, tells no cause */
	if (ns >
	    (ip_stops_of(target)->asleep || ip_stops_of(target)->starved || ip_stop_rest_ns(target)
		     ? TIMEOUT_NS
		     : OTHER_TIMEOUT_NS))
		return false;
	if (ns < SAY_NS || *said)
		return true;
	if (ip_stops_of(target)->asleep)
		ip_notice("pid %d: waiting for thread %s to wake up, to put its sites back; nobody "
			  "stands meanwhile",
			  target->pid, IP_THREAD_TEXT(ip_stops_of(target)->asleep));
	else if (ip_stops_of(target)->starved)
		ip_notice("pid %d: its threads get no CPU in time to be stopped within the limit: "
			  "trying on to put its sites back",
			  target->pid);
	*said = ip_stops_of(target)->asleep || ip_stops_of(target)->starved;
	return true;
}

void ip_stop_nap(struct ip_target *target, uint64_t ns)
{
	const uint64_t end = ip_now_ns() + ns;

	for (uint64_t now; (now = ip_now_ns()) < end;) {
		uint64_t left = end - now, step = ip_stops_of(target)->nheld && left > HELD_LOOK_NS
							  ? HELD_LOOK_NS
							  : left;

		nanosleep(&(struct timespec){step / 1000000000, step % 1000000000}, NULL);
		ip_stop_let_go(target);
	}
}

int ip_stop_rest(struct ip_target *target, uint64_t least_ns, const volatile int *end)
{
	const uint64_t least = ip_now_ns() + least_ns;

	for (;;) {
		const uint64_t now = ip_now_ns(), rest = ip_stop_rest_ns(target);
		uint64_t left = least > now ? least - now : 0;

		if (rest > left)
			left = rest;
		if (!left)
			return 0;
		if (end && *end)
			return -1;
		ip_stop_nap(target, left < REST_LOOK_NS ? left : REST_LOOK_NS);
	}
}

/* Takes note of the threads that were INTERRUPTed and have stopped. Other threads may have been
 * waited for meanwhile. */
static void sweep(struct ip_stop *stop)
{
	int status;

	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (t->asked && !t->stopped && !t->gone &&
		    waitpid(t->tid, &status, __WALL | WNOHANG) == t->tid)
			ip_stop_note(stop, t, status);
	}
}

/* After step 10, and only after a failure: the threads that stood run again, and the others are let
 * go. DETACH needs a stopped thread, so each is let go as soon as it has stopped. A thread that
 * does not stop within RELEASE_NS is kept for later. */
static void let_late_go(struct ip_stop *stop)
{
	const struct timespec nap = {.tv_nsec = LATE_LOOK_NS};
	struct ip_stop_record record = {.kind = "late", .tsc = ip_clock_now(), .failed = true};
	uint64_t looked = ip_now_ns(), last = looked;
	const uint64_t limit = looked + RELEASE_NS;
	size_t left = 1;

	ip_stop_adopt_strays(stop);
	for (size_t i = 0; i < stop->n; i++)
		if (!stop->threads[i].stopped && !stop->threads[i].gone && !stop->threads[i].asked)
			ptrace(PTRACE_INTERRUPT, stop->threads[i].tid, 0, 0);
	while (left && ip_now_ns() < limit) {
		left = 0;
		for (size_t i = 0; i < stop->n; i++) {
			struct ip_stopped_thread *t = &stop->threads[i];
			int status;
			pid_t got;

			if (t->stopped || t->gone)
				continue;
			got = waitpid(t->tid, &status, __WALL | WNOHANG);
			if (got == t->tid) {
				ip_priority_guard_restore(t->raised);
				t->raised = 0;
				ip_stop_note(stop, t, status);
				t = &stop->threads[i];
				if (!t->gone) {
					if (let_go(stop->target, t->tid, status) > 0)
						ip_stop_hold(stop->target, t->tid);
					/* it has stood for no longer than since the last look */
					if (ip_now_ns() - last > record.ns)
						record.ns = ip_now_ns() - last;
					record.threads++;
				}
				t->gone = true;
			} else if (got < 0) {
				t->gone = true;
				if (t->tid != t->pid)
					ip_stop_hold(stop->target, t->pid);
			} else if (ip_stop_has_ended(t->pid, t->tid)) {
				t->gone = true;
				ip_stop_hold(stop->target, t->tid);
			} else {
				left++;
			}
		}
		if (left)
			nanosleep(&nap, NULL);
		last = looked;
		looked = ip_now_ns();
	}
	if (record.threads)
		ip_stop_was_in_vain(stop->target, &record);
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		if (!t->stopped && !t->gone)
			ip_stop_hold(stop->target, t->tid);
		ip_priority_guard_restore(t->raised);
		t->raised = 0;
	}
	ip_stops_of(stop->target)->held_looked_ns = ip_now_ns();
}

/* Step 10 for one thread. A thread that was killed meanwhile must be reaped, or it stays a zombie
 * of iprobe: until then its process can neither end nor exec. */
static void release(struct ip_stop *stop, struct ip_stopped_thread *t)
{
	int status, detached;

	ip_priority_guard_restore(t->raised);
	t->raised = 0;
	if (t->gone)
		return;
	ip_restart_release(t->tid, &t->left);
	ip_renewed_calls_release(&ip_stops_of(stop->target)->renewed, t->tid, ip_now_ns());
	detached = ip_stop_detach(t->tid, t->signal);
	if (detached > 0)
		ip_stop_hold(stop->target, t->tid);
	if (detached >= 0)
		return;
	for (int i = 0; i < 4000 && !t->gone; i++) {
		const struct timespec nap = {.tv_nsec = 500000};
		pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

		if (got == t->tid && !WIFSTOPPED(status))
			ip_stop_note(stop, t, status);
		else if (got == t->tid) {
			/* a thread that executes a program has this number now */
			if (ip_stop_detach(t->tid, ip_stop_signal_of(status)) > 0)
				ip_stop_hold(stop->target, t->tid);
			t->gone = true;
		} else if (got < 0)
			t->gone = true;
		else
			nanosleep(&nap, NULL);
	}
}

uint64_t ip_stop_end(struct ip_stop *stop)
{
	struct ip_target *target = stop->target;
	struct ip_stop_record record = {.tsc = stop->began_tsc, .failed = true};
	uint64_t length;
	bool all = true, broken = false;

	for (size_t i = 0; i < stop->n; i++)
		all &= stop->threads[i].stopped || stop->threads[i].gone;
	if (!all)
		sweep(stop);
	for (size_t i = 0; i < stop->n; i++) {
		stop->stood += stop->threads[i].stopped;
		broken |= stop->threads[i].stopped && stop->threads[i].broken;
	}
	if (broken)
		ip_stop_restart_plainly(stop);
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].running && stop->threads[i].stopped)
			release(stop, &stop->threads[i]);
	if (stop->running_began_ns)
		stop->running_ns = ip_now_ns() - stop->running_began_ns;
	for (size_t i = 0; i < stop->n; i++)
		if (!stop->threads[i].running && stop->threads[i].stopped)
			release(stop, &stop->threads[i]);
	length = stop->began_ns ? ip_now_ns() - stop->began_ns : 0;
	if (stop->failed && stop->stood) {
		record.ns = length;
		record.running_ns = stop->running_ns;
		record.threads = stop->stood;
		ip_stop_was_in_vain(target, &record);
	}
	if (!all || stop->failed)
		let_late_go(stop);
	ip_priority_end(&stop->priority);
	ip_syscall_waits_clear(&stop->waits);
	free(stop->threads);
	free(stop->shared_mm);
	free(stop->workers);
	stop->threads = NULL;
	stop->shared_mm = stop->workers = NULL;
	stop->n = stop->capacity = stop->nshared_mm = stop->nworkers = 0;
	if (ip_stops_of(target)->nheld || stop->failed)
		ip_stop_let_go(target);
	if (ip_stops_of(target)->nheld && !ip_stops_of(target)->job_control)
		ip_stops_of(target)->job_control = true; /* until they are no tracees any more */
	else
		ip_job_control_end();
	return length;
}

void ip_stop_end_look(struct ip_stop *stop)
{
	struct ip_stop_log *log = &ip_stops_of(stop->target)->log;

	ip_stop_log_add_look(log, ip_stop_end(stop));
}
