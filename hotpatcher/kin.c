/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding processes that share memory. See kin.h.
 */
#include "hotpatcher/kin.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/grow.h"

#define LOOKS 8

enum answer {
	SHARES,
	DIFFERS,
	REFUSED, /* the kernel has no kcmp, or does not let us ask */
};

static enum answer ask(pid_t a, pid_t b)
{
	const long got = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);

	return got == 0 ? SHARES : got > 0 || errno == ESRCH ? DIFFERS : REFUSED;
}

bool ip_kin_is(pid_t a, pid_t b)
{
	return ask(a, b) == SHARES;
}

/* What anybody may see of a process's memory: how many pages it has, of which kinds. */
static int read_sizes(pid_t pid, char *ret, size_t size)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/statm", pid);
	file = fopen(name, "re");
	return file && fgets(ret, size, file) && atol(ret) ? 0 : -1;
}

/* Whether two of which the kernel does not tell are seen to differ: of one memory all sizes are the
 * same at any time. Each look may come while they change: so several. */
static bool seem_to_differ(pid_t a, pid_t b)
{
	char before[128], other[128], after[128];

	for (int i = 0; i < LOOKS; i++) {
		if (read_sizes(a, before, sizeof(before)) < 0 || read_sizes(b, other, sizeof(other)) < 0)
			return true; /* one has ended */
		if (read_sizes(a, after, sizeof(after)) == 0 && !strcmp(before, after) &&
		    strcmp(before, other))
			return true;
	}
	return false;
}

bool ip_kin_may_be(pid_t a, pid_t b)
{
	const enum answer answer = ask(a, b);

	return answer == SHARES || (answer == REFUSED && !seem_to_differ(a, b));
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

		enum answer answer = other && other != pid ? ask(tid, other) : DIFFERS;

		if (answer == DIFFERS || !has_memory(other))
			continue;
		if (answer == REFUSED) {
			if (seem_to_differ(tid, other))
				continue;
			free(*ret);
			*ret = NULL;
			return ip_error(
				"pid %d: pid %d may share its memory, and would have to be stopped too: this "
				"is not known, "
				"since kcmp is refused (%s): attach as root, on a kernel with CONFIG_KCMP",
				pid, other, strerror(errno));
		}
		if (ip_grow(ret, *ret_n, sizeof(**ret)) < 0) {
			free(*ret);
			*ret = NULL;
			return -1;
		}
		(*ret)[(*ret_n)++] = other;
	}
	return 0;
}
