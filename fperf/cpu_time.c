/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of CPU time. cpu_time.h has the steps that comments here name.
 */
#include "fperf/cpu_time.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"

/* Opens a counter. The kernel decides whose time may be counted, by the rules of ptrace(2). Time in
 * the kernel is counted too, since this counter cannot separate it. */
static int open_counter(pid_t tid, bool disabled)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_TASK_CLOCK,
				       .disabled = disabled,
				       .inherit = 1,
				       .inherit_thread = 1, /* not by processes; Linux 5.13 */
				       .exclude_kernel = 1,
				       .exclude_hv = 1};

	return syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

bool ip_cpu_time_init(struct ip_cpu_time *w)
{
	w->n = 0;
	w->own = open_counter(0, true);
	return w->own >= 0;
}

void ip_cpu_time_clear(struct ip_cpu_time *w)
{
	ip_cpu_time_stop(w);
	if (w->own >= 0)
		close(w->own);
	w->own = -1;
}

bool ip_cpu_time_start(struct ip_cpu_time *w, pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	struct dirent *entry;
	char name[64];

	ip_cpu_time_stop(w);
	if (w->own < 0)
		return false;
	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && (entry = readdir(dir))) {
		int fd;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		fd = w->n < IP_CPU_TIME_THREADS ? open_counter(atoi(entry->d_name), false) : -1;
		if (fd < 0 && w->n < IP_CPU_TIME_THREADS && errno == ESRCH)
			continue; /* the thread has ended */
		if (fd < 0) {
			ip_cpu_time_stop(w);
			return false;
		}
		w->fds[w->n++] = fd;
	}
	return w->n > 0;
}

bool ip_cpu_time_read(const struct ip_cpu_time *w, uint64_t *ret_ns)
{
	uint64_t ns;

	*ret_ns = 0;
	for (size_t i = 0; i < w->n; i++) {
		if (read(w->fds[i], &ns, sizeof(ns)) != sizeof(ns))
			return false;
		*ret_ns += ns;
	}
	return w->n > 0;
}

void ip_cpu_time_stop(struct ip_cpu_time *w)
{
	while (w->n)
		close(w->fds[--w->n]);
}
