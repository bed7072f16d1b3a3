/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that cannot be stopped at will: threads in uninterruptible sleep (state D), for example
 * the parent of a vfork until its child ends or executes a program. Step 1b of stop.h: iprobe
 * waits for them before anything is done to any thread, so that no thread stands meanwhile.
 *
 * Some of them wait for a lock of the kernel, as that of the memory's map, which another thread of
 * the process holds; and where that thread gets no CPU, they sleep for as long. So iprobe lends
 * real-time priority to threads that wait for a CPU:
 *
 *   1. Which threads sleep, and which are runnable: seen once, at the beginning. With each thread
 *      iprobe notes how often it has come to a CPU.
 *   2. After LEND_AFTER_NS iprobe takes real-time priority itself, or it would not come to step 4.
 *   3. At each look one runnable thread that has not come to a CPU by itself gets priority, by the
 *      guard's table (priority_guard.h), which gives it back if iprobe is killed. Its number may
 *      have come to mean another thread just then: the process is asked again, and where the thread
 *      is not its own, the priority is taken back at once.
 *   4. At the next look the priority is taken back, and the next thread has its turn. So a thread
 *      in an endless loop keeps a CPU from others for one look. A thread that slept and is
 *      runnable now has its turn, too: it may be the one that has the lock.
 *   5. It ends when each sleep is over. What sleeps for another reason (a disk, a vfork) costs
 *      others LEND_NS in all, however often it is tried: no more is lent because of one sleep.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "access/delegation.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/proc.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/priority.h"
#include "hotpatcher/ptrace/priority_guard.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

#define LOOK_NS	   1000000l
#define TIMEOUT_NS 20000000ull /* the least time to wait: a read from a disk is over by then */

#define LEND_AFTER_NS 4000000ull
#define LEND_NS	      200000000ull

struct thread {
	pid_t tid;
	char number[16];
	uint64_t turns; /* how often the thread has come to a CPU */
	bool asleep;	/* in the sleep that was seen at the beginning */
};

struct wait {
	struct ip_stops *stops;
	pid_t pid;
	int task; /* /proc/PID/task */
	struct thread *all;
	size_t n;
	/* what is lent; priority.on: iprobe has real-time priority itself */
	struct ip_priority priority;
	bool refused;
	uint32_t raised; /* the entry in the guard's table; 0: none */
	size_t at;	 /* the thread that had the last turn */
};

static uint64_t turns_of(pid_t pid, const char *number)
{
	uint64_t turns = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%s/schedstat", pid, number);
	_cleanup_fclose_ FILE *file = ip_delegation_fopen(name);
	return file && fscanf(file, "%*u %*u %lu", &turns) == 1 ? turns : 0;
}

/* Step 1. */
static int list(struct wait *w)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", w->pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		struct ip_task_look look;
		struct thread *t;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		look = ip_task_look(dirfd(dir), w->pid, entry->d_name, false);
		if ((look.state != 'D' && look.state != 'R') || look.kernel_worker)
			continue;
		if (ip_array_grow(&w->all, w->n, sizeof(*w->all)) < 0)
			return -1;
		t = &w->all[w->n++];
		*t = (struct thread){.tid = atoi(entry->d_name), .asleep = look.state == 'D'};
		snprintf(t->number, sizeof(t->number), "%d", t->tid);
		t->turns = turns_of(w->pid, t->number);
	}
	w->task = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return 0;
}

bool ip_stop_is_asleep(pid_t pid, pid_t tid)
{
	char name[64], number[16];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	snprintf(number, sizeof(number), "%d", tid);
	_cleanup_closedir_ DIR *dir = opendir(name);
	return dir && ip_stop_state_of(dirfd(dir), number) == 'D';
}

/* A thread that is still in the sleep that was seen; NULL: none. */
static const struct thread *asleep(struct wait *w)
{
	const struct thread *found = NULL;

	for (size_t i = 0; i < w->n; i++) {
		struct thread *t = &w->all[i];

		t->asleep = t->asleep && ip_stop_is_asleep(w->pid, t->tid) &&
			    turns_of(w->pid, t->number) == t->turns;
		if (t->asleep && !found)
			found = t;
	}
	return found;
}

static bool is_runnable(const struct wait *w, const struct thread *t)
{
	return w->task >= 0 && ip_stop_state_of(w->task, t->number) == 'R';
}

/* Step 4. That the thread came to a CPU meanwhile was our doing. */
static void take_back(struct wait *w)
{
	if (!w->raised)
		return;
	ip_priority_guard_restore(w->raised);
	w->raised = 0;
	w->all[w->at].turns = turns_of(w->pid, w->all[w->at].number);
}

/* Step 5: whether more may be lent because of this sleep. */
static bool may_lend(const struct wait *w, const struct thread *sleeper)
{
	struct ip_stops *stops = w->stops;

	if (stops->lent_for != sleeper->tid || stops->lent_turns != sleeper->turns) {
		stops->lent_for = sleeper->tid;
		stops->lent_turns = sleeper->turns;
		stops->lent_ns = 0;
	}
	return stops->lent_ns < LEND_NS;
}

/* Steps 2 and 3. */
static void lend(struct wait *w, const struct thread *sleeper)
{
	if (w->refused || !may_lend(w, sleeper))
		return;
	if (!w->priority.on) {
		w->refused = !ip_priority_begin(&w->priority) || !ip_priority_guard_begin();
		if (w->refused)
			return;
	}
	for (size_t i = 1; i <= w->n && !w->raised; i++) {
		const size_t at = (w->at + i) % w->n;
		const struct thread *t = &w->all[at];

		if (t->asleep || !is_runnable(w, t) || turns_of(w->pid, t->number) != t->turns)
			continue;
		w->raised = ip_priority_guard_raise(t->tid);
		w->at = at;
		if (w->raised && ip_stop_state_of(w->task, t->number) == 'X')
			take_back(w);
	}
	if (w->raised)
		w->stops->lent_ns += LOOK_NS;
}

static void clear(struct wait *w)
{
	take_back(w);
	ip_priority_end(&w->priority);
	if (w->task >= 0)
		close(w->task);
	free(w->all);
}

/* 0; -1: a thread is still asleep, *ret. */
static int await_all(struct wait *w, uint64_t limit, struct thread *ret)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};
	const int interrupted = ip_interrupted;
	const uint64_t began = ip_now_ns();
	const struct thread *sleeper;

	while ((sleeper = asleep(w))) {
		const uint64_t waited = ip_now_ns() - began;

		take_back(w);
		if (ip_interrupted != interrupted || waited > limit) {
			*ret = *sleeper;
			return -1;
		}
		if (waited >= LEND_AFTER_NS)
			lend(w, sleeper);
		nanosleep(&nap, NULL);
	}
	return 0;
}

/* Waits for the end of each sleep that was seen at the beginning, and for none that begins later:
 * if many threads read from a disk, one of them may always be asleep. The wait ends after
 * stop->max_ns, but not before TIMEOUT_NS, or when the user interrupts. If the user has done so
 * before, this stop belongs to the end of a session, where it is tried again and again, or to a
 * beginning that is to be given up: then the wait ends after TIMEOUT_NS. */
int ip_stop_await_asleep(struct ip_stop *stop)
{
	struct wait w = {.stops = ip_stops_of(stop->target), .pid = stop->target->pid, .task = -1};
	const uint64_t limit =
		ip_interrupted || stop->max_ns < TIMEOUT_NS ? TIMEOUT_NS : stop->max_ns;
	struct thread sleeper = {0};
	int ret = list(&w);

	if (ret == 0)
		ret = await_all(&w, limit, &sleeper);
	clear(&w);
	if (ret == 0 || !sleeper.tid)
		return ret;
	stop->late = true;
	w.stops->asleep = sleeper.tid;
	return ip_error("pid %d: thread %s cannot be stopped now (%s): no thread was stopped, "
			"nothing was changed; try again",
			w.pid, IP_THREAD_TEXT(sleeper.tid), ip_stop_why_late(w.pid, sleeper.tid));
}
