/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists threads, until the list is whole.
 */
#include "kernel_trace/thread_list.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

#define LISTINGS_MOST 100u

struct threads {
	pid_t *tids; /* sorted */
	size_t n;
};

static int by_tid(const void *left, const void *right)
{
	return *(const pid_t *)left - *(const pid_t *)right;
}

/* The threads of a process that exist now. */
static int list_threads(pid_t pid, struct threads *ret)
{
	char path[32];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return ip_error_errno("pid %d: cannot list its threads", pid);
	while ((entry = readdir(dir))) {
		if (*entry->d_name < '1' || *entry->d_name > '9')
			continue;
		if (ip_array_grow(&ret->tids, ret->n, sizeof(*ret->tids)) < 0)
			return -1;
		ret->tids[ret->n++] = atoi(entry->d_name);
	}
	if (ret->n)
		qsort(ret->tids, ret->n, sizeof(*ret->tids), by_tid);
	return 0;
}

int ip_thread_list_choose(pid_t pid, int (*choose)(void *context, const pid_t *tids, size_t n),
			  void *context)
{
	struct threads before = {0};
	bool new = true;
	int ret = 0;

	for (unsigned i = 0; i < LISTINGS_MOST && ret == 0 && new; i++) {
		struct threads now = {0};

		ret = list_threads(pid, &now);
		new = false;
		/* it was reaped meanwhile; and an empty list would choose all threads */
		if (ret == 0 && !now.n)
			ret = ip_error("pid %d: it has ended", pid);
		for (size_t k = 0; k < now.n && !new; k++)
			new = !before.n || !bsearch(&now.tids[k], before.tids, before.n,
						    sizeof(*now.tids), by_tid);
		if (ret == 0 && new)
			ret = choose(context, now.tids, now.n);
		free(before.tids);
		before = now;
	}
	free(before.tids);
	return ret;
}
