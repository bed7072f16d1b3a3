/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See target_clock.h.
 */
#include "hotpatcher/inject/target_clock.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/abi/borrow.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "hotpatcher/inject/borrow_search.h"
#include "hotpatcher/inject/remap_thread.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/stop_log.h"
#include "hotpatcher/ptrace/stops.h"

#define FIND_NS	   100000000ull
#define WAITING_NS 4000000ull /* how long only waiting threads are asked */

int ip_target_clock_check(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	if (!dir)
		return ip_error_errno("pid %d: cannot look at its threads", pid);
	while ((entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (tid && ip_proc_status(tid, "Seccomp") == SECCOMP_MODE_STRICT)
			return ip_error("pid %d: thread %s is under strict seccomp, where reading "
					"the processor's clock, as iprobe's hooks do, ends it",
					pid, IP_THREAD_TEXT(tid));
	}
	return 0;
}

static int refuse(pid_t pid)
{
	return ip_error("pid %d may not read the processor's clock (PR_SET_TSC), which iprobe's "
			"hooks do: it would be ended by its first event",
			pid);
}

static enum ip_borrow_which soon(uint64_t ns)
{
	return ns < WAITING_NS ? IP_BORROW_WAITING : IP_BORROW_RUNNING;
}

/* Whether the thread is stopped, or frozen by its cgroup (newer kernels name the function around
 * it). We can stop such a thread, but it does not run. */
static bool stands_still(pid_t tid)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], where[64] = "";

	snprintf(name, sizeof(name), "/proc/%d/wchan", tid);
	file = fopen(name, "re");
	return file && fgets(where, sizeof(where), file) &&
	       (strstr(where, "refrigerator") || strstr(where, "freez") ||
		strstr(where, "get_signal") || strstr(where, "do_signal_stop"));
}

int ip_target_clock_ask(struct ip_target *target)
{
	struct ip_remap_piece piece = {.what = IP_REMAP_CLOCK, .error = -1};
	_cleanup_close_ int lock = -1;
	struct ip_remap_hold held;
	int done;

	if (target->anchor.error == IP_RT_NO_TSC)
		return refuse(target->pid);
	if (!target->anchor.gate || !target->anchor.remap || stands_still(target->pid) ||
	    ip_proc_status(target->pid, "Seccomp") != 0 || ip_borrow_check(target->pid) < 0)
		return 0;
	if (ip_remap_thread_check(target) < 0)
		return -1;
	lock = ip_borrow_lock(target->pid);
	if (lock < 0)
		return -1;
	done = ip_remap_thread_run(target, soon, FIND_NS, &piece, 1, &held);
	if (!held.tsc) /* no thread could be asked */
		return 0;
	ip_stop_log_add_look(&ip_stops_of(target)->log, held.ns);
	if (done < 0 && piece.error == -1) /* never asked: the thread is kept from running */
		return 0;
	if (done < 0)
		return -1;
	return piece.error ? refuse(target->pid) : 0;
}
