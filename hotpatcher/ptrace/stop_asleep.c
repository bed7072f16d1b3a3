/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that cannot be stopped at will: threads in uninterruptible sleep (state D), for example
 * the parent of a vfork until its child ends or executes a program. Step 1b of stop.h: iprobe
 * waits for them before anything is done to any thread, so that no thread stands meanwhile.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "access/delegation.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/proc.h"
#include "hotpatcher/ptrace/kernel_worker.h"
#include "hotpatcher/ptrace/stop_private.h"
#include "hotpatcher/ptrace/stops.h"

#define LOOK_NS	   1000000l
#define TIMEOUT_NS 20000000ull /* the least time to wait: a read from a disk is over by then */

struct sleeper {
	pid_t tid;
	char number[16];
	uint64_t turns; /* how often the thread has come to a CPU */
};

static uint64_t turns_of(pid_t pid, const char *number)
{
	uint64_t turns = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task/%s/schedstat", pid, number);
	_cleanup_fclose_ FILE *file = ip_delegation_fopen(name);
	return file && fscanf(file, "%*u %*u %lu", &turns) == 1 ? turns : 0;
}

static int list(pid_t pid, struct sleeper **ret, size_t *ret_n)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		struct ip_task_look look;
		struct sleeper *s;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		look = ip_task_look(dirfd(dir), pid, entry->d_name, false);
		if (look.state != 'D' || look.kernel_worker)
			continue;
		if (ip_array_grow(ret, *ret_n, sizeof(**ret)) < 0)
			return -1;
		s = &(*ret)[(*ret_n)++];
		*s = (struct sleeper){.tid = atoi(entry->d_name)};
		snprintf(s->number, sizeof(s->number), "%d", s->tid);
		s->turns = turns_of(pid, s->number);
	}
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

/* Waits for the end of each sleep that was seen at the beginning, and for none that begins later:
 * if many threads read from a disk, one of them may always be asleep. The wait ends after
 * stop->max_ns, but not before TIMEOUT_NS, or when the user interrupts. If the user has done so
 * before, this stop belongs to the end of a session, where it is tried again and again, or to a
 * beginning that is to be given up: then the wait ends after TIMEOUT_NS. */
int ip_stop_await_asleep(struct ip_stop *stop)
{
	const struct timespec nap = {.tv_nsec = LOOK_NS};
	const pid_t pid = stop->target->pid;
	_cleanup_free_ struct sleeper *all = NULL;
	const int interrupted = ip_interrupted;
	const uint64_t limit = interrupted || stop->max_ns < TIMEOUT_NS ? TIMEOUT_NS : stop->max_ns;
	uint64_t began = ip_now_ns();
	size_t n = 0;

	if (list(pid, &all, &n) < 0)
		return -1;
	for (;;) {
		size_t left = 0;

		for (size_t i = 0; i < n; i++)
			if (ip_stop_is_asleep(pid, all[i].tid) &&
			    turns_of(pid, all[i].number) == all[i].turns)
				all[left++] = all[i];
		n = left;
		if (!n)
			return 0;
		if (ip_interrupted != interrupted || ip_now_ns() - began > limit)
			break;
		nanosleep(&nap, NULL);
	}
	stop->late = true;
	ip_stops_of(stop->target)->asleep = all[0].tid;
	return ip_error("pid %d: thread %s cannot be stopped now (%s): no thread was stopped, "
			"nothing was changed; try again",
			pid, IP_THREAD_TEXT(all[0].tid), ip_stop_why_late(pid, all[0].tid));
}
