/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See target_clock.h.
 */
#include "hotpatcher/target_clock.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "hotpatcher/target.h"

int ip_target_clock_check(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		pid_t tid = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (tid && ip_proc_status(tid, "Seccomp") == SECCOMP_MODE_STRICT)
			return ip_error("pid %d: thread %d is under strict seccomp, where reading the "
					"processor's clock, as "
					"iprobe's hooks do, ends it",
					pid, tid);
	}
	return 0;
}
