/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel says about a process in /proc.
 */
#include "common/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/print.h"

long ip_proc_status(pid_t pid, const char *key)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[512];
	size_t length = strlen(key);

	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length) && line[length] == ':')
			return strtol(line + length + 1, NULL, 10);
	return -1;
}

bool ip_proc_has_memory(pid_t pid)
{
	return ip_proc_status(pid, "VmSize") >= 0;
}

const char *ip_proc_thread_text(pid_t tid, char ret[IP_PROC_THREAD_MAX])
{
	const int error = errno;
	char path[64], name[64], clean[96];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	/* a thread is there by its own number, too, whatever process it belongs to */
	snprintf(path, sizeof(path), "/proc/%d/comm", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);
	if (n > 0 && name[n - 1] == '\n')
		n--;
	if (n > 0) {
		name[n] = '\0';
		ip_escape(clean, sizeof(clean), name);
		snprintf(ret, IP_PROC_THREAD_MAX, "%d (%s)", tid, clean);
	} else {
		snprintf(ret, IP_PROC_THREAD_MAX, "%d", tid);
	}
	errno = error;
	return ret;
}

/* A number in /proc/PID/stat, by its place in proc(5), from the third on; 0: it is not known. */
static uint64_t stat_field(pid_t pid, int place)
{
	char name[64], line[1024];
	_cleanup_close_ int fd = -1;
	const char *at;
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/stat", pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);
	if (n <= 0)
		return 0;
	line[n] = '\0';
	at = strrchr(line, ')'); /* the name, which is the second, may contain anything */
	for (int i = 2; at && i < place; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t ip_proc_started_at(pid_t pid)
{
	return stat_field(pid, 22);
}

/* By the address of its stack, which the kernel tells whoever may trace the process; others 0. The
 * program's file is not opened: it may lie on a file system that another user answers for. */
int ip_proc_is_64_bit(pid_t pid)
{
	const uint64_t stack = stat_field(pid, 28);

	return stack ? stack > UINT32_MAX : -1;
}

long ip_proc_last_pid(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/loadavg", "re");
	long pid = -1;

	if (file && fscanf(file, "%*s %*s %*s %*s %ld", &pid) != 1)
		pid = -1;
	return pid;
}

int ip_proc_each_child(pid_t pid, int (*visit)(void *context, pid_t child), void *context)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	char name[300];
	int child, ret = 0;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && ret == 0 && (entry = readdir(dir))) {
		_cleanup_fclose_ FILE *file = NULL;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%s/children", pid, entry->d_name);
		file = fopen(name, "re");
		while (file && ret == 0 && fscanf(file, "%d", &child) == 1)
			ret = visit(context, child);
	}
	return ret;
}

int ip_proc_cpu_used(pid_t pid, uint64_t *ret_ns)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used) < 0)
		return -1;
	*ret_ns = used.tv_sec * 1000000000ull + used.tv_nsec;
	return 0;
}

static void read_switches(pid_t pid, struct ip_proc_queue *queue)
{
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[256];

	snprintf(name, sizeof(name), "/proc/%d/task/%d/status", pid, queue->tid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &queue->slept) != 1)
			sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &queue->preempted);
}

int ip_proc_each_queue(pid_t pid, int (*visit)(void *context, const struct ip_proc_queue *queue),
		       void *context)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	char name[300];
	int ret = 0;

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	while (dir && !ret && (entry = readdir(dir))) {
		struct ip_proc_queue queue = {.tid = atoi(entry->d_name)};
		_cleanup_fclose_ FILE *file = NULL;
		uint64_t ran;

		if (queue.tid <= 0)
			continue;
		snprintf(name, sizeof(name), "/proc/%d/task/%d/schedstat", pid, queue.tid);
		file = fopen(name, "re");
		if (!file || fscanf(file, "%" SCNu64 " %" SCNu64, &ran, &queue.queued_ns) != 2)
			continue;
		read_switches(pid, &queue);
		ret = visit(context, &queue);
	}
	return ret;
}

static int add_queued(void *context, const struct ip_proc_queue *queue)
{
	*(uint64_t *)context += queue->queued_ns;
	return 0;
}

int ip_proc_cpu(pid_t pid, struct ip_proc_cpu *ret)
{
	*ret = (struct ip_proc_cpu){0};
	if (ip_proc_cpu_used(pid, &ret->used_ns) < 0)
		return -1;
	ip_proc_each_queue(pid, add_queued, &ret->queued_ns);
	return 0;
}
