/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding processes that share memory. See kin.h.
 */
#include "hotpatcher/kin.h"

#include <ctype.h>
#include <dirent.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/grow.h"

bool ip_kin_is(pid_t a, pid_t b)
{
	return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0;
}

/* A kernel thread has no memory, and so has a process that is ending: two of them are no kin. */
static bool has_memory(pid_t pid)
{
	_cleanup_fclose_ FILE *file = NULL;
	unsigned long pages = 0;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/statm", pid);
	file = fopen(name, "re");
	return file && fscanf(file, "%lu", &pages) == 1 && pages;
}

int ip_kin_find(pid_t pid, pid_t tid, pid_t **ret, size_t *ret_n)
{
	_cleanup_closedir_ DIR *dir = opendir("/proc");
	struct dirent *entry;

	*ret = NULL;
	*ret_n = 0;
	while (dir && (entry = readdir(dir))) {
		pid_t other = isdigit((unsigned char)entry->d_name[0]) ? atoi(entry->d_name) : 0;

		if (!other || other == pid || !ip_kin_is(tid, other) || !has_memory(other))
			continue;
		if (ip_grow(ret, *ret_n, sizeof(**ret)) < 0) {
			free(*ret);
			*ret = NULL;
			return -1;
		}
		(*ret)[(*ret_n)++] = other;
	}
	return 0;
}
