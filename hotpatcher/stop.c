/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stop. The steps are told in stop.h; the comments here name them.
 */
#include "hotpatcher/stop.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"
#include "hotpatcher/arch/x86_64/regs.h"
#include "hotpatcher/guard.h"
#include "hotpatcher/kin.h"
#include "hotpatcher/stay.h"
#include "hotpatcher/tick.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

#define OPTIONS (PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK)
#define PASSES	4 /* listings before the first INTERRUPT, at most: a target may make threads all the time */
#define RELEASE_NS                                                                                           \
	50000000ull  /* how long threads that were not stopped yet are waited for in order to let them go */
#define KIN_LOOKS  4 /* kin that is about to become another program does so in this many looks */
#define KIN_NAP_NS 2000000l

uint64_t ip_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* The signal to hand on at DETACH for a wait status: only a signal-delivery-stop holds one. Group-stops, our own
 * INTERRUPT and events are PTRACE_EVENT stops. */
static int pending_signal(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

static void hold(struct ip_target *target, pid_t tid)
{
	void *grown = realloc(target->held, (target->nheld + 1) * sizeof(*target->held));

	if (!grown)
		return;
	target->held = grown;
	target->held[target->nheld++] = tid;
}

static struct ip_stopped_thread *find(struct ip_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].tid == tid)
			return &stop->threads[i];
	return NULL;
}

static int add(struct ip_stop *stop, pid_t pid, pid_t tid, bool running)
{
	if (stop->n == stop->capacity) {
		size_t grown = stop->capacity ? 2 * stop->capacity : 64;
		void *threads = realloc(stop->threads, grown * sizeof(*stop->threads));

		if (!threads)
			return ip_error("out of memory");
		stop->threads = threads;
		stop->capacity = grown;
	}
	stop->threads[stop->n++] = (struct ip_stopped_thread){.tid = tid, .pid = pid, .running = running};
	return 0;
}

static bool is_thread_of(pid_t pid, pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, tid);
	return access(name, F_OK) == 0;
}

/* Step 2: a thread has told of a child, which was attached to us. A thread will be found by step 4; another process waits before its
 * first instruction until the stop is over: it is not worth the time to wait for it to get there. */
static void meet_child(struct ip_stop *stop, pid_t pid, pid_t tid)
{
	unsigned long child;

	if (ptrace(PTRACE_GETEVENTMSG, tid, 0, &child) < 0 || find(stop, child) || is_thread_of(pid, child))
		return;
	if (ip_kin_is(tid, child) && ip_grow(&stop->kin, stop->nkin, sizeof(*stop->kin)) == 0 &&
	    add(stop, child, child, false) == 0)
		stop->kin[stop->nkin++] = child;
	else
		hold(stop->target, child);
}

/* Takes note of a status of a thread. The leader's exit status is kept: it may be our own child. */
static void note_status(struct ip_stop *stop, struct ip_stopped_thread *t, int status)
{
	pid_t pid = t->pid, tid = t->tid;

	if (!WIFSTOPPED(status)) {
		t->gone = true;
		if (tid == stop->target->pid) {
			stop->target->exited = true;
			stop->target->exit_status = status;
		}
		return;
	}
	t->stopped = true;
	t->signal = pending_signal(status);
	t->by_us = status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8);
	if (ip_restart_stopped(stop->target, tid, status, &stop->sleeps, &t->pc, &t->left) < 0)
		t->pc = 0;
	if (status >> 16 == PTRACE_EVENT_CLONE || status >> 16 == PTRACE_EVENT_FORK ||
	    status >> 16 == PTRACE_EVENT_VFORK)
		meet_child(stop, pid, tid); /* t may have moved */
}

/* State letter of a thread; 'X' where it is gone. task: /proc/PID/task. */
static char state_of(int task, const char *tid)
{
	char name[300], text[128], *p;
	ssize_t n;

	snprintf(name, sizeof(name), "%s/stat", tid);
	_cleanup_close_ int fd = openat(task, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 'X';
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name before it has 64 bytes at most */
	return p && p[1] ? p[2] : 'X';
}

/* A thread that has ended but is still listed: a leader whose other threads go on, or one about to vanish. */
static bool has_ended(pid_t pid, pid_t tid)
{
	char name[64], number[16], state;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	snprintf(number, sizeof(number), "%d", tid);
	_cleanup_close_ int task = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	state = task < 0 ? 'X' : state_of(task, number);
	return state == 'X' || state == 'Z';
}

/* SEIZE did not work. 0: never mind; 1: list again; 2: it is ours already; -1: an error. */
static int judge_refusal(pid_t pid, pid_t tid, int error)
{
	long tracer;

	/* One that has just ended may have made the listing skip others. A leader that has ended stays listed. */
	if (error == ESRCH)
		return 1;
	if (has_ended(pid, tid))
		return 0;
	tracer = ip_proc_status(tid, "TracerPid");
	if (tracer == getpid()) /* born to a thread of ours, or held since an earlier stop */
		return 2;
	if (tracer > 0)
		return ip_error("pid %d: thread %d is already traced by pid %ld (gdb, strace, another "
				"iprobe?): end that "
				"first",
				pid, tid, tracer);
	return ip_error(
		"pid %d: thread %d cannot be traced (%s): needs the same user or root (CAP_SYS_PTRACE)", pid,
		tid, strerror(error));
}

/* Steps 1, 2 and 4 for one process: seizes every thread not known yet. The number of new ones, or -1. */
static int seize_process(struct ip_stop *stop, pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];
	int found = 0, vanished = 0;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	if (!dir)
		return pid == stop->target->pid ? ip_error("pid %d has ended", pid) : 0;
	while ((entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;
		bool running;

		if (!tid || find(stop, tid))
			continue;
		running = !stop->began_ns && state_of(dirfd(dir), entry->d_name) == 'R';
		if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS) < 0) {
			int refusal = judge_refusal(pid, tid, errno);

			if (refusal < 0)
				return -1;
			vanished |= refusal == 1;
			if (refusal != 2)
				continue;
		}
		if (add(stop, pid, tid, running) < 0)
			return -1;
		found++;
	}
	return found + vanished;
}

static int seize_new(struct ip_stop *stop)
{
	int found = seize_process(stop, stop->target->pid);

	for (size_t i = 0; found >= 0 && i < stop->nkin; i++) {
		int more = seize_process(stop, stop->kin[i]);

		found = more < 0 ? -1 : found + more;
	}
	return found;
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
static int wait_for(struct ip_stop *stop, size_t i)
{
	struct ip_stopped_thread *t = &stop->threads[i];

	while (!t->stopped && !t->gone) {
		int status;
		pid_t got = waitpid(t->tid, &status, __WALL);

		if (got == t->tid)
			note_status(stop, t, status);
		else if (errno == ECHILD)
			t->gone = true;
		else if (ip_now_ns() > stop->deadline_ns)
			return -1;
		else if (
			has_ended(
				t->pid,
				t->tid)) { /* a leader, which its tracer sees end with the last thread only */
			t->gone = true;
			hold(stop->target, t->tid);
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
			stop->began_tsc = ip_arch_clock();
		}
		if (running && !stop->running_began_ns)
			stop->running_began_ns = ip_now_ns();
		if (stop->lend && !t->raised)
			t->raised = ip_guard_raise(t->tid);
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		t->asked = true;
	}
	for (size_t i = 0; i < stop->n; i++) {
		if (stop->threads[i].running != running || wait_for(stop, i) == 0)
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

/* Step 4, the short way: /proc/PID/task has one link for each thread, besides its own two. A leader that has ended counts. */
static bool has_all(const struct ip_stop *stop, pid_t pid)
{
	size_t stopped = 0;
	struct stat st;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	if (stat(name, &st) < 0)
		return false;
	for (size_t i = 0; i < stop->n; i++)
		stopped += stop->threads[i].pid == pid && stop->threads[i].stopped;
	return st.st_nlink == stopped + 2 || (st.st_nlink == stopped + 3 && has_ended(pid, pid));
}

static bool is_complete(const struct ip_stop *stop)
{
	if (!has_all(stop, stop->target->pid))
		return false;
	for (size_t i = 0; i < stop->nkin; i++)
		if (!has_all(stop, stop->kin[i]))
			return false;
	return true;
}

/* Ordinary users may not; then it takes longer. */
static void boost(struct ip_stop *stop)
{
	const struct sched_param high = {.sched_priority = IP_STOP_PRIORITY};

	stop->policy = sched_getscheduler(0);
	if (stop->policy >= 0 && sched_getparam(0, &stop->priority) == 0)
		stop->boosted = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &high) == 0;
}

static void unboost(struct ip_stop *stop)
{
	if (!stop->boosted)
		return;
	/* who may have the priority by a limit only (RLIMIT_RTPRIO) may not take the flag away again */
	if (sched_setscheduler(0, stop->policy, &stop->priority) < 0)
		sched_setscheduler(0, stop->policy | SCHED_RESET_ON_FORK, &stop->priority);
	stop->boosted = false;
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
			add(stop, stop->target->pid, tid, false);
	}
}

/* Those that an earlier stop had to leave behind and that are in the list now are not held any more. */
static void take_held(struct ip_stop *stop)
{
	struct ip_target *target = stop->target;
	size_t left = 0;

	for (size_t i = 0; i < target->nheld; i++)
		if (!find(stop, target->held[i]))
			target->held[left++] = target->held[i];
	target->nheld = left;
}

/* A thread that has not ended; 0: none. The leader may have. */
static pid_t live_thread(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64], state;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		state = state_of(dirfd(dir), entry->d_name);
		if (state != 'X' && state != 'Z')
			return atoi(entry->d_name);
	}
	return 0;
}

/* Step 1: a child of vfork or posix_spawn shares the memory for a moment only, and its parent cannot stop before that is over. */
static int find_kin(struct ip_stop *stop)
{
	const struct timespec nap = {.tv_nsec = KIN_NAP_NS};
	pid_t pid = stop->target->pid;

	for (int i = 0;; i++) {
		pid_t tid = live_thread(pid);

		if (!tid)
			return ip_error("pid %d has ended", pid);
		if (ip_kin_find(pid, tid, &stop->kin, &stop->nkin) < 0)
			return -1;
		if (!stop->nkin || i == KIN_LOOKS)
			return 0;
		free(stop->kin);
		nanosleep(&nap, NULL);
	}
}

static int gather(struct ip_stop *stop)
{
	int found = 0;

	if (find_kin(stop) < 0)
		return -1;
	ip_sleeps_look(stop->target->pid, 0, stop->target->arch->bits == 32, &stop->sleeps); /* 0 */
	for (int i = 0; i < PASSES && (found = seize_new(stop)) > 0; i++)
		;
	if (found < 0)
		return -1;
	take_held(stop);
	ip_stop_order(stop->threads, stop->n);
	boost(stop);
	stop->lend = stop->boosted && ip_guard_begin();
	do {
		if (stop_all(stop) < 0)
			return -1;
	} while (!is_complete(stop) && (found = seize_new(stop)) > 0);
	if (found < 0)
		return -1;
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].stopped)
			return 0;
	return ip_error("pid %d has ended", stop->target->pid);
}

int ip_stop_begin(struct ip_target *target, uint64_t deadline_ns, struct ip_stop *ret)
{
	*ret = (struct ip_stop){.target = target, .deadline_ns = ip_now_ns() + deadline_ns};
	ip_stay_begin(deadline_ns);
	if (gather(ret) == 0)
		return 0;
	adopt_strays(ret);
	ip_stop_end(ret);
	return -1;
}

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
			ptrace(PTRACE_DETACH, info.si_pid, 0, pending_signal(status));
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
			ptrace(PTRACE_DETACH, tid, 0, pending_signal(status));
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
		if (wait_for(stop, i) < 0) {
			hold(stop->target, stop->threads[i].tid);
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
	unboost(stop);
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
	if (add(ret, target->pid, tid, false) == 0 && stop_all(ret) == 0 && ret->threads[0].stopped)
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
