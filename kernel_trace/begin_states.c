/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the state of threads from /proc.
 */
#include "kernel_trace/begin_states.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_stream.h"

/* Numbers as LTTng's state dump has them. */
enum { USER_THREAD = 0 };
enum { MODE_UNKNOWN = 0, MODE_USER = 1, MODE_SYSCALL = 2 };
enum { STATUS_WAIT_CPU = 2, STATUS_ZOMBIE = 4, STATUS_WAIT = 5 };

/* Reads a small file of a thread; the text ends with 0. */
static ssize_t read_file(int task, const char *tid, const char *name, char *ret, size_t size)
{
	char path[64];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%.10s/%s", tid, name);
	fd = openat(task, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	if (n >= 0)
		ret[n] = '\0';
	return n;
}

static int put(struct ip_kernel_stream *stream, enum ip_kernel_event id, int32_t tid,
	       uint8_t context, const void *fields)
{
	const struct ip_kernel_event_header header = {
		.id = id, .tsc = ip_clock_now(), .tid = tid, .context = context};
	const int size = ip_kernel_fields_size(id);
	uint8_t *out = ip_kernel_stream_room(stream);

	if (!out)
		return -1;
	memcpy(out, &header, sizeof(header));
	memcpy(out + sizeof(header), fields, size);
	ip_kernel_stream_add(stream, header.tsc, sizeof(header) + size);
	return 0;
}

static int put_state(struct ip_kernel_stream *stream, pid_t pid, int32_t tid, const char *stat,
		     bool in_call, bool with_parent)
{
	struct {
		int32_t tid, pid, ppid;
		char name[16];
		int32_t type, mode, submode, status;
	} __attribute__((packed)) fields = {.tid = tid, .pid = pid, .type = USER_THREAD};
	const char *from = strchr(stat, '('), *to = strrchr(stat, ')');
	int parent;
	char state;

	if (!from || !to || to < from || sscanf(to + 1, " %c %d", &state, &parent) != 2)
		return 0;
	fields.ppid = with_parent ? parent : 0;
	from++;
	memcpy(fields.name, from, to - from < 15 ? to - from : 15);
	fields.mode = in_call ? MODE_SYSCALL : state == 'R' ? MODE_UNKNOWN : MODE_USER;
	fields.status = state == 'R'		       ? STATUS_WAIT_CPU
			: state == 'Z' || state == 'X' ? STATUS_ZOMBIE
						       : STATUS_WAIT;
	return put(stream, IP_KERNEL_PROCESS_STATE, tid, 0, &fields);
}

/* The call that a thread waits in: proc_pid_syscall(5). A thread that runs has none. */
static bool parse_call(const char *text, int32_t *ret_number, uint64_t arguments[6])
{
	long number;
	int n;

	if (sscanf(text, "%ld%n", &number, &n) != 1 || number < 0 || !ip_kernel_has_syscall(number))
		return false;
	for (unsigned i = 0; i < 6; i++) {
		char *end;

		errno = 0;
		arguments[i] = strtoull(text + n, &end, 16);
		if (errno || end == text + n)
			return false;
		n = end - text;
	}
	*ret_number = number;
	return true;
}

/* The last number of a line: that of the thread's own namespace. 0: it is of ours. */
static int32_t last_of(const char *line)
{
	int32_t last = 0, number;
	int n, count = 0;

	for (; sscanf(line, "%d%n", &number, &n) == 1; line += n) {
		last = number;
		count++;
	}
	return count > 1 ? last : 0;
}

struct inner_ids {
	int32_t tid, pid;
};

/* Lines before these may be long: that of the groups has one number for each. Returns 1: *ret is
 * known; 0: the thread has ended; -1 with an error. */
static int read_inner(int task, const char *tid, struct inner_ids *ret)
{
	char path[64];
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	bool has_tid = false, has_pid = false, any = false;
	int fd;

	snprintf(path, sizeof(path), "%.10s/status", tid);
	fd = openat(task, path, O_RDONLY | O_CLOEXEC);
	file = fd < 0 ? NULL : fdopen(fd, "r");
	if (!file && fd >= 0) {
		close(fd);
		return ip_error("out of memory");
	}
	while (file && getline(&line, &size, file) >= 0) {
		any = true;
		if (!strncmp(line, "NSpid:", 6)) {
			ret->tid = last_of(line + 6);
			has_tid = true;
		} else if (!strncmp(line, "NStgid:", 7)) {
			ret->pid = last_of(line + 7);
			has_pid = true;
		}
	}
	if (!any)
		return 0;
	/* a kernel without such namespaces has no such lines */
	if ((has_tid && has_pid) || ip_access("/proc/self/ns/pid", F_OK) < 0)
		return 1;
	return ip_error("thread %.10s: /proc does not tell its id in its pid namespace", tid);
}

/* What the kernel's events and the thread itself call it differs where it is in a container. */
static int put_ids(struct ip_kernel_stream *stream, pid_t pid, int32_t tid, int task,
		   const char *name)
{
	struct inner_ids inner = {0};
	struct {
		int32_t tid, pid, inner_tid, inner_pid;
	} fields = {.tid = tid, .pid = pid};
	const int known = read_inner(task, name, &inner);

	if (known <= 0 || !inner.tid || !inner.pid)
		return known < 0 ? -1 : 0;
	fields.inner_tid = inner.tid;
	fields.inner_pid = inner.pid;
	return put(stream, IP_KERNEL_IDS_STATE, tid, 0, &fields);
}

static int write_thread(struct ip_kernel_stream *stream, pid_t pid, int task, const char *tid,
			bool calls, bool parent)
{
	struct {
		int32_t tid, number;
		uint64_t arguments[6];
	} __attribute__((packed)) fields = {.tid = atoi(tid)};
	uint64_t arguments[6];
	int32_t number;
	char text[4096];
	bool own, in_call = calls && read_file(task, tid, "syscall", text, sizeof(text)) > 0 &&
			    parse_call(text, &number, arguments);

	if (read_file(task, tid, "stat", text, sizeof(text)) <= 0)
		return 0; /* it has ended */
	if (put_state(stream, pid, fields.tid, text, in_call, parent) < 0)
		return -1;
	if (put_ids(stream, pid, fields.tid, task, tid) < 0)
		return -1;
	if (!in_call)
		return 0;
	/* such as that of a program that iprobe has started, which waits there for its sites */
	own = ip_event_take_own_mark(number, arguments);
	fields.number = number;
	memcpy(fields.arguments, arguments, sizeof(arguments));
	return put(stream, IP_KERNEL_SYSCALL_STATE, fields.tid, own ? IP_KERNEL_OWN_CALL : 0,
		   &fields);
}

int ip_begin_states_write(struct ip_kernel_stream *stream, pid_t pid, bool calls, bool parent)
{
	char path[32];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return ip_error_errno("pid %d: cannot list its threads", pid);
	while ((entry = readdir(dir)))
		if (*entry->d_name >= '1' && *entry->d_name <= '9' &&
		    write_thread(stream, pid, dirfd(dir), entry->d_name, calls, parent) < 0)
			return -1;
	return ip_kernel_stream_flush(stream);
}
