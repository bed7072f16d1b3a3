/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding all threads of a target while they run: steps 1, 2 and 4 of stop.h.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/process/shared_mm.h"
#include "hotpatcher/ptrace/interval_signal.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

/* a process that shares the memory and is about to become another program does so within this many
 * looks */
#define SHARED_MM_LOOKS	 4
#define SHARED_MM_NAP_NS 2000000l
#define UNTOLD		 20 /* looks at a process that cannot be told apart */

/* Judges why SEIZE did not work. 0: it does not matter; 1: list the threads again; 2: the thread is
 * already a tracee of iprobe; -1: an error. */
static int judge_refusal(pid_t pid, pid_t tid, int error)
{
	long tracer;

	/* A thread that has just ended may have made the listing skip others. A leader that has
	 * ended stays listed. */
	if (error == ESRCH)
		return 1;
	if (ip_stop_has_ended(pid, tid))
		return 0;
	tracer = ip_proc_status(tid, "TracerPid");
	if (tracer == getpid()) /* born to a tracee, or held since an earlier stop */
		return 2;
	if (tracer > 0)
		return ip_error("pid %d: thread %s is already traced by pid %ld (gdb, strace, "
				"another iprobe?): end that first",
				pid, IP_THREAD_TEXT(tid), tracer);
	return ip_error("pid %d: thread %s cannot be traced (%s): needs the same user or root "
			"(CAP_SYS_PTRACE)",
			pid, IP_THREAD_TEXT(tid), strerror(error));
}

/* The number of links of /proc/PID/task: one for each thread, besides its own two. */
static nlink_t links_of(pid_t pid)
{
	struct stat st;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	return stat(name, &st) == 0 ? st.st_nlink : 0;
}

static bool is_known_worker(const struct ip_stop *stop, pid_t tid)
{
	for (size_t i = 0; i < stop->nworkers; i++)
		if (stop->workers[i] == tid)
			return true;
	return false;
}

static int add_worker(struct ip_stop *stop, pid_t tid)
{
	if (is_known_worker(stop, tid))
		return 0;
	if (ip_array_grow(&stop->workers, stop->nworkers, sizeof(*stop->workers)) < 0)
		return -1;
	stop->workers[stop->nworkers++] = tid;
	return 0;
}

/* Steps 1, 2 and 4 for one process: seizes every thread that is not known yet. Returns the number
 * of new ones, or -1. A worker that ends while the threads are listed hides those behind it: then
 * the counts before and after differ from each other or from the number of listed threads. */
static int seize_process(struct ip_stop *stop, pid_t pid)
{
	const nlink_t links = links_of(pid);
	size_t listed = 2;
	bool workers = false;
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
		struct ip_task_look look;
		bool running;

		listed += tid != 0;
		if (!tid || ip_stop_find(stop, tid))
			continue;
		look = ip_task_look(dirfd(dir), pid, entry->d_name, is_known_worker(stop, tid));
		if (look.kernel_worker) {
			workers = true;
			if (add_worker(stop, tid) < 0)
				return -1;
			continue;
		}
		running = !stop->began_ns && look.state == 'R';
		if (ip_stop_seize(stop, tid, IP_STOP_OPTIONS) < 0) {
			int refusal = judge_refusal(pid, tid, errno);

			if (refusal < 0)
				return -1;
			vanished |= refusal == 1;
			if (refusal != 2)
				continue;
		}
		if (ip_stop_add(stop, pid, tid, running) < 0)
			return -1;
		found++;
	}
	if (workers && (links != listed || links != links_of(pid)))
		vanished = 1;
	return found + vanished;
}

int ip_stop_seize_new(struct ip_stop *stop)
{
	int found;

	ip_interval_signal_start(IP_INTERVAL_SIGNAL_NS);
	found = seize_process(stop, stop->target->pid);
	for (size_t i = 0; found >= 0 && i < stop->nshared_mm; i++) {
		int more = seize_process(stop, stop->shared_mm[i]);

		found = more < 0 ? -1 : found + more;
	}
	ip_interval_signal_stop();
	return found;
}

/* Step 4, the short way. A leader that has ended counts. So does a worker: if a process has one,
 * all its threads are listed again. */
static bool has_all(const struct ip_stop *stop, pid_t pid)
{
	const nlink_t links = links_of(pid);
	size_t stopped = 0;

	for (size_t i = 0; i < stop->n; i++)
		stopped += stop->threads[i].pid == pid && stop->threads[i].stopped;
	return links == stopped + 2 || (links == stopped + 3 && ip_stop_has_ended(pid, pid));
}

bool ip_stop_is_complete(const struct ip_stop *stop)
{
	if (!has_all(stop, stop->target->pid))
		return false;
	for (size_t i = 0; i < stop->nshared_mm; i++)
		if (!has_all(stop, stop->shared_mm[i]))
			return false;
	return true;
}

/* After a failure: takes in threads that were born to tracees meanwhile. They are tracees of
 * iprobe, too, and wait. */
void ip_stop_adopt_strays(struct ip_stop *stop)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", stop->target->pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (tid && !ip_stop_find(stop, tid) && ip_proc_status(tid, "TracerPid") == getpid())
			ip_stop_add(stop, stop->target->pid, tid, false);
	}
}

/* Threads that an earlier stop had to leave behind and that are in the list now are not held any
 * more. */
void ip_stop_take_held(struct ip_stop *stop)
{
	struct ip_target *target = stop->target;
	size_t left = 0;

	for (size_t i = 0; i < ip_stops_of(target)->nheld; i++)
		if (!ip_stop_find(stop, ip_stops_of(target)->held[i]))
			ip_stops_of(target)->held[left++] = ip_stops_of(target)->held[i];
	ip_stops_of(target)->nheld = left;
}

/* Finds a thread that has not ended, since the leader may have; 0: there is none. */
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
		state = ip_stop_state_of(dirfd(dir), entry->d_name);
		if (state != 'X' && state != 'Z')
			return atoi(entry->d_name);
	}
	return 0;
}

/* Step 1. A child of vfork or posix_spawn shares the memory only for a moment, and its parent
 * cannot stop before that is over. It may be impossible to tell whether another user's process
 * shares the memory, for example the same program at its start or end. A moment later that can
 * mostly be told. */
int ip_stop_find_shared_mm(struct ip_stop *stop)
{
	const struct timespec nap = {.tv_nsec = SHARED_MM_NAP_NS};
	pid_t pid = stop->target->pid;

	for (int i = 0;; i++) {
		pid_t tid = live_thread(pid);
		int found;

		if (!tid)
			return ip_error("pid %d has ended", pid);
		found = ip_shared_mm_find(pid, tid, &stop->shared_mm, &stop->nshared_mm);
		if (found == 0 && (!stop->nshared_mm || i >= SHARED_MM_LOOKS))
			return 0;
		if (found < 0 && i >= UNTOLD)
			return -1;
		free(stop->shared_mm);
		stop->shared_mm = NULL;
		nanosleep(&nap, NULL);
	}
}
