/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stop. The steps are told in stop.h; the comments here name them.
 */
#include "hotpatcher/stop.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/arch/x86_64/regs.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

uint64_t ip_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The signal to hand on at DETACH for a wait status: only a signal-delivery-stop holds one. Group-stops, our own
 * INTERRUPT and clone events are PTRACE_EVENT stops. */
static int pending_signal(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

/* A process that a thread of the target made by clone() was attached to us. Unless it is a thread, let it go.
 */
static void let_stranger_go(pid_t pid, pid_t parent)
{
	unsigned long message;
	char name[64];
	int status;

	if (ptrace(PTRACE_GETEVENTMSG, parent, 0, &message) < 0)
		return;
	snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, (pid_t)message);
	if (access(name, F_OK) == 0)
		return;
	for (int i = 0; i < 1000; i++) {
		const struct timespec nap = {.tv_nsec = 100000};
		pid_t got = waitpid(message, &status, __WALL | WNOHANG);

		if (got == (pid_t)message && WIFSTOPPED(status))
			ptrace(PTRACE_DETACH, message, 0, pending_signal(status));
		if (got != 0)
			return;
		nanosleep(&nap, NULL);
	}
}

/* Takes note of a status of thread t. The leader's exit status is kept: it may be our own child. */
static void note_status(struct ip_stop *stop, struct ip_stopped_thread *t, int status)
{
	if (WIFSTOPPED(status)) {
		t->stopped = true;
		t->signal = pending_signal(status);
		t->by_us = status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8);
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8))
			let_stranger_go(stop->target->pid, t->tid);
		if (ip_restart_stopped(stop->target, t->tid, status, &stop->sleeps, &t->pc, &t->left) < 0)
			t->pc = 0;
		return;
	}
	t->gone = true;
	if (t->tid == stop->target->pid) {
		stop->target->exited = true;
		stop->target->exit_status = status;
	}
}

static struct ip_stopped_thread *find(struct ip_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].tid == tid)
			return &stop->threads[i];
	return NULL;
}

static int add(struct ip_stop *stop, pid_t tid)
{
	if (stop->n == stop->capacity) {
		size_t grown = stop->capacity ? 2 * stop->capacity : 64;
		void *threads = realloc(stop->threads, grown * sizeof(*stop->threads));

		if (!threads)
			return ip_error("out of memory");
		stop->threads = threads;
		stop->capacity = grown;
	}
	stop->threads[stop->n++] = (struct ip_stopped_thread){.tid = tid};
	return 0;
}

/* A thread that has ended but is still listed: a leader whose other threads go on, or one about to vanish. */
static bool has_ended(pid_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[256], state = 'X';

	snprintf(name, sizeof(name), "/proc/%d/status", tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "State: %c", &state) == 1)
			break;
	return state == 'X' || state == 'Z';
}

/* Steps 1 and 3: seizes every thread not known yet. The number of new ones, or -1. */
static int seize_new(struct ip_stop *stop)
{
	_cleanup_closedir_ DIR *dir = NULL;
	pid_t pid = stop->target->pid;
	struct dirent *entry;
	char name[64];
	int found = 0, vanished = 0;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	if (!dir)
		return ip_error("pid %d has ended", pid);
	while ((entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		long tracer;

		if (!tid || find(stop, tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACECLONE) < 0) {
			int error = errno;

			/* One that has just ended may have made the listing skip others: look again. A leader
			 * that has ended stays listed. */
			if (error == ESRCH)
				vanished = 1;
			if (error == ESRCH || has_ended(tid))
				continue;
			tracer = ip_proc_status(tid, "TracerPid");
			if (tracer !=
			    getpid()) { /* else: born to a thread of ours, TRACECLONE has it already */
				if (tracer > 0)
					return ip_error("pid %d: thread %d is already traced by pid %ld "
							"(gdb, strace, "
							"another iprobe?): end that first",
							pid, tid, tracer);
				return ip_error("pid %d: thread %d cannot be traced (%s): needs the same "
						"user or root "
						"(CAP_SYS_PTRACE)",
						pid, tid, strerror(error));
			}
		}
		if (add(stop, tid) < 0)
			return -1;
		found++;
	}
	return found + vanished;
}

/* Step 2. */
static int stop_all(struct ip_stop *stop, uint64_t deadline)
{
	if (!stop->began_ns) {
		stop->began_ns = ip_now_ns();
		stop->began_tsc = ip_arch_clock();
	}
	for (size_t i = 0; i < stop->n; i++)
		if (!stop->threads[i].stopped && !stop->threads[i].gone)
			ptrace(PTRACE_INTERRUPT, stop->threads[i].tid, 0, 0);
	for (size_t i = 0; i < stop->n; i++) {
		struct ip_stopped_thread *t = &stop->threads[i];

		for (unsigned spins = 0; !t->stopped && !t->gone; spins++) {
			int status;
			pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

			if (got == t->tid) {
				note_status(stop, t, status);
			} else if (got < 0 && errno == ECHILD) {
				t->gone = true;
			} else if (ip_now_ns() > deadline) {
				stop->late = true;
				return ip_error("pid %d: thread %d did not stop in time (uninterruptible "
						"sleep or vfork?): "
						"nothing was changed, try again",
						stop->target->pid, t->tid);
			} else if (spins < 50) {
				sched_yield();
			} else {
				const struct timespec nap = {.tv_nsec = 20000};

				nanosleep(&nap, NULL);
			}
		}
	}
	return 0;
}

/* Ordinary users may not; then it takes longer. */
static void boost(struct ip_stop *stop)
{
	const struct sched_param high = {.sched_priority = 10};

	stop->policy = sched_getscheduler(0);
	if (stop->policy >= 0 && sched_getparam(0, &stop->priority) == 0)
		stop->boosted = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &high) == 0;
}

/* After a failure: threads that were born to ours meanwhile are ours too, and wait. */
static void adopt_strays(struct ip_stop *stop)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", stop->target->pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (tid && !find(stop, tid) && ip_proc_status(tid, "TracerPid") == getpid())
			add(stop, tid);
	}
}

int ip_stop_begin(struct ip_target *target, uint64_t deadline_ns, struct ip_stop *ret)
{
	uint64_t deadline = ip_now_ns() + deadline_ns;
	size_t alive = 0;
	int found;

	*ret = (struct ip_stop){.target = target};
	ip_sleeps_look(target->pid, 0, target->arch->bits == 32, &ret->sleeps);
	target->nheld = 0; /* they are in the list of threads, and found again */
	boost(ret);
	while ((found = seize_new(ret)) > 0)
		if (stop_all(ret, deadline) < 0) {
			found = -1;
			break;
		}
	for (size_t i = 0; i < ret->n; i++)
		alive += ret->threads[i].stopped;
	if (found < 0)
		adopt_strays(ret);
	if (found == 0 && alive == 0)
		found = ip_error("pid %d has ended", target->pid);
	if (found < 0) {
		ip_stop_end(ret);
		return -1;
	}
	return 0;
}

static void hold(struct ip_target *target, pid_t tid)
{
	void *grown = realloc(target->held, (target->nheld + 1) * sizeof(*target->held));

	if (!grown)
		return;
	target->held = grown;
	target->held[target->nheld++] = tid;
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
			ptrace(PTRACE_DETACH, tid, 0, pending_signal(status));
		else if (got == tid && tid == target->pid) {
			target->exited = true;
			target->exit_status = status;
		}
	}
	target->nheld = left;
}

/* Step 5 for one thread. One that was killed meanwhile must be reaped, or it stays a zombie of ours. */
static void release(struct ip_stop *stop, struct ip_stopped_thread *t)
{
	int status;

	if (t->gone)
		return;
	if (!t->stopped) {
		/* Only after a failure: DETACH needs a stopped thread. Wait for it; it is about to be. */
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		for (int i = 0; i < 200 && !t->stopped && !t->gone; i++) {
			const struct timespec nap = {.tv_nsec = 100000};
			pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

			if (got == t->tid)
				note_status(stop, t, status);
			else if (got < 0)
				t->gone = true;
			else
				nanosleep(&nap, NULL);
		}
		if (!t->stopped && !t->gone) {
			hold(stop->target, t->tid);
			return;
		}
	}
	ip_restart_release(t->tid, &t->left);
	if (ptrace(PTRACE_DETACH, t->tid, 0, t->signal) == 0 || errno != ESRCH)
		return;
	/* It was stopped and is not any more: killed. Until we have reaped it the process cannot end, nor
	 * exec. */
	for (int i = 0; i < 4000 && !t->gone; i++) {
		const struct timespec nap = {.tv_nsec = 500000};
		pid_t got = waitpid(t->tid, &status, __WALL | WNOHANG);

		if (got == t->tid && !WIFSTOPPED(status))
			note_status(stop, t, status);
		else if (got < 0)
			t->gone = true;
		else
			nanosleep(&nap, NULL);
	}
}

uint64_t ip_stop_end(struct ip_stop *stop)
{
	uint64_t length;

	for (size_t i = stop->n; i-- > 0;)
		release(stop, &stop->threads[i]);
	length = stop->began_ns ? ip_now_ns() - stop->began_ns : 0;
	if (stop->boosted)
		sched_setscheduler(0, stop->policy, &stop->priority);
	ip_sleeps_clear(&stop->sleeps);
	free(stop->threads);
	stop->threads = NULL;
	stop->n = stop->capacity = 0;
	return length;
}

int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target};
	ip_sleeps_look(target->pid, tid, target->arch->bits == 32, &ret->sleeps);
	if (ptrace(PTRACE_SEIZE, tid, 0, 0) < 0) {
		int error = errno;

		ip_sleeps_clear(&ret->sleeps);
		errno = error;
		return -1;
	}
	if (add(ret, tid) == 0 && stop_all(ret, ip_now_ns() + deadline_ns) == 0 && ret->threads[0].stopped)
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
