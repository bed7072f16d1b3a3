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

#include "common/cleanup.h"
#include "common/error.h"
#include "common/proc.h"
#include "kernel_trace/thread_list.h"

#define PREFIX "iprobe-"

/* iprobe-PID-STARTED-PART. tracefs is opened in the initial pid namespace alone, so that all pids
 * are of that one. */
static bool is_left(const char *name)
{
	char *end;
	unsigned long pid, started, now;

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
	/* one that has ended, and was not waited for, is gone as well */
	errno = 0;
	now = ip_proc_started_at(pid);
	if (!now) /* what cannot be looked at is not gone */
		return errno == ENOENT || errno == ESRCH;
	return now != started || !ip_proc_has_memory(pid);
}

/* tracefs_instances() never gives its expressions back (1.6.4). */
size_t ip_instance_remove_left(void)
{
	char *path = tracefs_get_tracing_file("instances");
	_cleanup_closedir_ DIR *dir = path ? opendir(path) : NULL;
	const struct dirent *entry;
	size_t removed = 0;

	tracefs_put_tracing_file(path);
	while (dir && (entry = readdir(dir))) {
		struct tracefs_instance *left;

		if (!is_left(entry->d_name))
			continue;
		left = tracefs_instance_alloc(NULL, entry->d_name);
		removed += left && tracefs_instance_destroy(left) == 0;
		tracefs_instance_free(left);
	}
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

static int choose(void *context, const pid_t *tids, size_t n)
{
	const int *fd = context;
	char text[4096];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		used += snprintf(text + used, sizeof(text) - used, "%d ", tids[i]);
		if (i + 1 < n && used < sizeof(text) - 16)
			continue;
		if (write(*fd, text, used) != (ssize_t)used)
			return ip_error_errno("cannot choose threads for kernel events");
		used = 0;
	}
	return 0;
}

/* The kernel adds the child of each thread that it has on its list. */
int ip_instance_limit(struct tracefs_instance *instance, pid_t pid)
{
	_cleanup_close_ int fd = -1;

	if (put(instance, "options/event-fork", "1") < 0)
		return -1;
	fd = tracefs_instance_file_open(instance, "set_event_pid", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open set_event_pid of the kernel's tracefs");
	return ip_thread_list_choose(pid, choose, &fd);
}

int ip_instance_enable(struct tracefs_instance *instance, const char *system,
		       const char *tracepoint)
{
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

static bool remains; /* one that was to be removed */

void ip_instance_remove(struct tracefs_instance *instance)
{
	if (!instance)
		return;
	if (tracefs_instance_destroy(instance) < 0)
		remains = true;
	tracefs_instance_free(instance);
}

bool ip_instance_remains(void)
{
	return remains;
}
