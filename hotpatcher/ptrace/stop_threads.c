/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a stop: the list of them, and what the kernel tells of each. The steps are told
 * in stop.h; the comments here name them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/interval_signal.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

/* The signal to deliver at DETACH, from a wait status. Only a signal-delivery-stop holds a signal.
 * Group-stops, stops by an INTERRUPT and events are PTRACE_EVENT stops. */
int ip_stop_signal_of(int status)
{
	return status >> 16 ? 0 : WSTOPSIG(status);
}

void ip_stop_hold(struct ip_target *target, pid_t tid)
{
	void *grown = realloc(ip_stops_of(target)->held, (ip_stops_of(target)->nheld +
							  1) * sizeof(*ip_stops_of(target)->held));

	if (!grown)
		return;
	ip_stops_of(target)->held = grown;
	if (!ip_stops_of(target)->nheld)
		ip_stops_of(target)->held_looked_ns = ip_now_ns();
	ip_stops_of(target)->held[ip_stops_of(target)->nheld++] = tid;
}

struct ip_stopped_thread *ip_stop_find(struct ip_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].tid == tid)
			return &stop->threads[i];
	return NULL;
}

int ip_stop_add(struct ip_stop *stop, pid_t pid, pid_t tid, bool running)
{
	if (stop->n == stop->capacity) {
		size_t grown = stop->capacity ? 2 * stop->capacity : 64;
		void *threads = realloc(stop->threads, grown * sizeof(*stop->threads));

		if (!threads)
			return ip_error("out of memory");
		stop->threads = threads;
		stop->capacity = grown;
	}
	stop->threads[stop->n++] =
		(struct ip_stopped_thread){.tid = tid, .pid = pid, .running = running};
	return 0;
}

static bool is_thread_of(pid_t pid, pid_t tid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, tid);
	return ip_access(name, F_OK) == 0;
}

/* Step 2: a thread has reported a child, which is attached to iprobe. If the child is a thread,
 * step 4 will find it. If it is another process, it waits before its first instruction until the
 * stop is over: to wait here until it gets there would not be worth the time. */
static void meet_child(struct ip_stop *stop, pid_t pid, pid_t tid)
{
	unsigned long child;

	if (ptrace(PTRACE_GETEVENTMSG, tid, 0, &child) < 0 || ip_stop_find(stop, child) ||
	    is_thread_of(pid, child))
		return;
	if (ip_shared_mm_may_be(tid, child) &&
	    ip_array_grow(&stop->shared_mm, stop->nshared_mm, sizeof(*stop->shared_mm)) == 0 &&
	    ip_stop_add(stop, child, child, false) == 0)
		stop->shared_mm[stop->nshared_mm++] = child;
	else
		ip_stop_hold(stop->target, child);
}

/* Takes note of a wait status of a thread, and changes nothing of the thread. Keeps the leader's
 * exit status, since the target may be a child of iprobe. */
void ip_stop_note(struct ip_stop *stop, struct ip_stopped_thread *t, int status)
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
	t->signal = ip_stop_signal_of(status);
	t->by_us = status >> 8 == (SIGTRAP | PTRACE_EVENT_STOP << 8);
	t->status = status;
	t->broken = true; /* until ip_stop_look() knows better */
	ip_stop_look(stop, t);
	if (status >> 16 == PTRACE_EVENT_EXEC && pid == stop->target->pid)
		stop->executed = true;
	if (status >> 16 == PTRACE_EVENT_CLONE || status >> 16 == PTRACE_EVENT_FORK ||
	    status >> 16 == PTRACE_EVENT_VFORK)
		meet_child(stop, pid, tid); /* t may have moved */
}

static void reap_one(pid_t tid)
{
	siginfo_t info = {0};

	/* the kernel hands out stops of a tracee whether or not WSTOPPED asks for them: so look
	 * first, or the stop that the gathering waits for is lost */
	if (waitid(P_PID, tid, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 && info.si_pid &&
	    info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED)
		waitid(P_PID, tid, &info, WEXITED | WNOHANG | __WALL);
}

/* A thread that executes another program waits in the middle of the exec until all other threads
 * have ended. A tracee has not ended in this sense before iprobe has reaped it. Until the exec is
 * through, the kernel keeps iprobe in PTRACE_SEIZE. So threads that have ended are reaped there,
 * too, in the signal's handler; a later wait for such a thread finds it gone. The leader is not
 * reaped: its status may be that of iprobe's own child, and the kernel does not wait for it. */
static void reap(void *data)
{
	const struct ip_stop *stop = data;
	const int error = errno;

	for (size_t i = 0; i < stop->n; i++)
		if (stop->threads[i].tid != stop->threads[i].pid && !stop->threads[i].gone)
			reap_one(stop->threads[i].tid);
	for (size_t i = 0; i < ip_stops_of(stop->target)->nheld; i++)
		if (ip_stops_of(stop->target)->held[i] != stop->target->pid)
			reap_one(ip_stops_of(stop->target)->held[i]);
	errno = error;
}

void ip_stop_reap(struct ip_stop *stop)
{
	reap(stop);
}

int ip_stop_seize(struct ip_stop *stop, pid_t tid, unsigned long options)
{
	int ret, error;

	ip_interval_signal_calls(reap, stop);
	ret = ptrace(PTRACE_SEIZE, tid, 0, options);
	error = errno;
	ip_interval_signal_calls(NULL, NULL);
	errno = error;
	return ret;
}

/* The state letter of a thread; 'X': it is gone. task: /proc/PID/task. */
char ip_stop_state_of(int task, const char *tid)
{
	char name[300], text[128], *p;
	ssize_t n;

	snprintf(name, sizeof(name), "%s/stat", tid);
	_cleanup_close_ int fd = openat(task, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return 'X';
	text[n] = '\0';
	p = strrchr(text, ')'); /* the name in front of it has at most 64 bytes */
	return p && p[1] ? p[2] : 'X';
}

/* Whether a thread has ended, even if it is still listed: a leader whose other threads go on, or a
 * thread that is about to vanish. */
bool ip_stop_has_ended(pid_t pid, pid_t tid)
{
	char name[64], number[16], state;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	snprintf(number, sizeof(number), "%d", tid);
	_cleanup_close_ int task = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	state = task < 0 ? 'X' : ip_stop_state_of(task, number);
	return state == 'X' || state == 'Z';
}
