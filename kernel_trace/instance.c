/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes, sets and removes instances of tracefs. instance.h has the steps.
 */
#include "kernel_trace/instance.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"

#define PREFIX	      "iprobe-"
#define LISTINGS_MOST 100u

/* iprobe-PID-STARTED-PART. tracefs is opened in the initial pid namespace alone, so that all pids
 * are of that one. */
static bool is_left(const char *name)
{
	char *end;
	unsigned long pid, started;

	if (strncmp(name, PREFIX, strlen(PREFIX)))
		return false;
	name += strlen(PREFIX);
	pid = strtoul(name, &end, 10);
	if (end == name || *end != '-' || !pid || pid > INT32_MAX)
		return false;
	name = end + 1;
	started = strtoul(name, &end, 10);
	if (end == name || *end != '-')
		return false;
	return ip_proc_started_at(pid) != started;
}

size_t ip_instance_remove_left(void)
{
	char **names = tracefs_instances("^" PREFIX);
	size_t removed = 0;

	for (char **name = names; name && *name; name++) {
		struct tracefs_instance *left;

		if (!is_left(*name))
			continue;
		left = tracefs_instance_alloc(NULL, *name);
		removed += left && tracefs_instance_destroy(left) == 0;
		tracefs_instance_free(left);
	}
	tracefs_list_free(names);
	return removed;
}

static int put(struct tracefs_instance *instance, const char *file, const char *text)
{
	if (tracefs_instance_file_write(instance, file, text) < 0)
		return ip_error_errno("cannot set %s of the kernel's tracefs to %s", file, text);
	return 0;
}

struct tracefs_instance *ip_instance_create(const char *part, size_t buffer)
{
	struct tracefs_instance *instance;
	char name[96], size[32];

	snprintf(name, sizeof(name), PREFIX "%d-%lu-%s", getpid(), ip_proc_started_at(getpid()),
		 part);
	instance = tracefs_instance_create(name);
	if (!instance) {
		ip_error_errno("cannot make an instance of the kernel's tracefs");
		return NULL;
	}
	snprintf(size, sizeof(size), "%zu", (buffer + 1023) / 1024);
	if (ip_instance_switch(instance, false) < 0 ||
	    put(instance, "trace_clock", "x86-tsc") < 0 ||
	    put(instance, "buffer_size_kb", size) < 0) {
		ip_instance_remove(instance);
		return NULL;
	}
	/* A kernel without it tells of the first event already, which costs us more wake-ups. */
	tracefs_instance_file_write(instance, "buffer_percent", "25");
	return instance;
}

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

static int choose(int fd, const struct threads *threads)
{
	char text[4096];
	size_t n = 0;

	for (size_t i = 0; i < threads->n; i++) {
		n += snprintf(text + n, sizeof(text) - n, "%d ", threads->tids[i]);
		if (i + 1 < threads->n && n < sizeof(text) - 16)
			continue;
		if (write(fd, text, n) != (ssize_t)n)
			return ip_error_errno("cannot choose threads for kernel events");
		n = 0;
	}
	return 0;
}

/* Threads come while they are listed. The kernel adds the child of each thread that it has on its
 * list, so a thread can be missing only if its parent was not on the list yet. When a listing has
 * nobody new, all are on it. */
int ip_instance_limit(struct tracefs_instance *instance, pid_t pid)
{
	_cleanup_close_ int fd = -1;
	struct threads before = {0};
	bool new = true;
	int ret = 0;

	if (put(instance, "options/event-fork", "1") < 0)
		return -1;
	fd = tracefs_instance_file_open(instance, "set_event_pid", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open set_event_pid of the kernel's tracefs");
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
			ret = choose(fd, &now);
		free(before.tids);
		before = now;
	}
	free(before.tids);
	return ret;
}

int ip_instance_enable(struct tracefs_instance *instance, const char *system,
		       const char *tracepoint)
{
	if (!tracefs_event_file_exists(instance, system, tracepoint, "enable"))
		return 1;
	if (tracefs_event_enable(instance, system, tracepoint) < 0)
		return ip_error_errno("cannot record the kernel's %s:%s", system, tracepoint);
	return 0;
}

int ip_instance_switch(struct tracefs_instance *instance, bool on)
{
	return put(instance, "tracing_on", on ? "1" : "0");
}

unsigned long ip_instance_lost(struct tracefs_instance *instance, unsigned cpu)
{
	static const char *const counts[] = {"overrun: ", "dropped events: "};
	unsigned long lost = 0;
	_cleanup_free_ char *text = NULL;
	char file[48];

	snprintf(file, sizeof(file), "per_cpu/cpu%u/stats", cpu);
	text = tracefs_instance_file_read(instance, file, NULL);
	for (size_t i = 0; text && i < sizeof(counts) / sizeof(counts[0]); i++) {
		const char *at = strstr(text, counts[i]);

		if (at)
			lost += strtoul(at + strlen(counts[i]), NULL, 10);
	}
	return lost;
}

int ip_instance_open_cpu(struct tracefs_instance *instance, unsigned cpu)
{
	char file[48];
	int fd;

	snprintf(file, sizeof(file), "per_cpu/cpu%u/trace_pipe_raw", cpu);
	fd = tracefs_instance_file_open(instance, file, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open %s of the kernel's tracefs", file);
	return fd;
}

void ip_instance_remove(struct tracefs_instance *instance)
{
	if (!instance)
		return;
	tracefs_instance_destroy(instance);
	tracefs_instance_free(instance);
}
