/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes what descriptors are. descriptor_log.h has the protocol.
 */
#include "kernel_trace/descriptor_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/proc.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/descriptor_name.h"

#define TEXT_MAX	256
#define CONNECTING_MOST 64u
#define TOUCHED_MOST	4096

/* A descriptor that was made. fd -1: several were, whose numbers are in the thread's memory. */
struct made {
	uint64_t tsc;
	int32_t tid, fd;
	bool looked, spoiled;
	pid_t pid;
	const char *kind; /* NULL: it is gone */
	char text[TEXT_MAX];
};

struct ip_descriptor_log {
	FILE *out;
	/* sockets that are being connected: what they are is known when the call returns */
	struct {
		int32_t tid, fd;
	} connecting[CONNECTING_MOST];
	size_t nconnecting;
	struct made made[IP_DESCRIPTORS_MOST];
	size_t n;
	/* Descriptors that were made, closed or replaced after some call whose descriptors are in
	 * memory: what these are now need not be what that call made. */
	bool pairs;
	uint8_t touched[TOUCHED_MOST];
};

struct ip_descriptor_log *ip_descriptor_log_open(int dir)
{
	struct ip_descriptor_log *log = calloc(1, sizeof(*log));
	int fd;

	if (!log) {
		ip_error("out of memory");
		return NULL;
	}
	fd = ip_file_make(dir, IP_TRACE_DESCRIPTORS, O_WRONLY | O_APPEND);
	log->out = fd < 0 ? NULL : fdopen(fd, "a");
	if (log->out)
		return log;
	ip_error_errno("cannot make %s", IP_TRACE_DESCRIPTORS);
	if (fd >= 0)
		close(fd);
	free(log);
	return NULL;
}

void ip_descriptor_log_close(struct ip_descriptor_log *log)
{
	if (!log)
		return;
	fclose(log->out);
	free(log);
}

/* Control characters would break the line. */
static void put(struct ip_descriptor_log *log, uint64_t tsc, pid_t pid, int fd, const char *kind,
		const char *text)
{
	fprintf(log->out, "%lu\t%d\t%d\t%s\t", tsc, pid, fd, kind);
	for (; *text; text++)
		putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, log->out);
	putc('\n', log->out);
}

static int check(struct ip_descriptor_log *log)
{
	if (fflush(log->out) == 0 && !ferror(log->out))
		return 0;
	return ip_error_errno("cannot write %s", IP_TRACE_DESCRIPTORS);
}

int ip_descriptor_log_scan(struct ip_descriptor_log *log, pid_t pid, uint64_t tsc)
{
	char path[32], text[TEXT_MAX];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	const char *kind;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (*entry->d_name >= '0' && *entry->d_name <= '9' &&
		    ip_descriptor_name(pid, atoi(entry->d_name), &kind, text, sizeof(text)) == 0)
			put(log, tsc, pid, atoi(entry->d_name), kind, text);
	return check(log);
}

/* Whether the result of a call is a new descriptor. */
static bool makes(unsigned number)
{
	switch (number) {
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
	case SYS_socket:
	case SYS_accept:
	case SYS_accept4:
	case SYS_dup:
	case SYS_dup2:
	case SYS_dup3:
	case SYS_eventfd:
	case SYS_eventfd2:
	case SYS_epoll_create:
	case SYS_epoll_create1:
	case SYS_timerfd_create:
	case SYS_signalfd:
	case SYS_signalfd4:
	case SYS_inotify_init:
	case SYS_inotify_init1:
	case SYS_memfd_create:
	case SYS_pidfd_open:
	case SYS_io_uring_setup:
		return true;
	default:
		return false;
	}
}

static bool makes_pair(unsigned number)
{
	return number == SYS_pipe || number == SYS_pipe2 || number == SYS_socketpair;
}

static void add(struct ip_descriptor_log *log, const struct ip_kernel_event_header *h, int32_t fd)
{
	if (log->n < IP_DESCRIPTORS_MOST)
		log->made[log->n++] = (struct made){.tsc = h->tsc, .tid = h->tid, .fd = fd};
}

static void spoil(struct ip_descriptor_log *log, int32_t from, int32_t to)
{
	for (int32_t fd = from < 0 ? 0 : from; log->pairs && fd < TOUCHED_MOST && fd <= to; fd++)
		log->touched[fd] = true;
	for (size_t i = 0; i < log->n; i++)
		log->made[i].spoiled |= log->made[i].fd >= from && log->made[i].fd <= to;
}

static int32_t argument(const uint8_t *fields, unsigned i)
{
	uint64_t value;

	memcpy(&value, fields + 8 * i, sizeof(value));
	return value > INT32_MAX ? INT32_MAX : (int32_t)value;
}

static void begin_connect(struct ip_descriptor_log *log, int32_t tid, int32_t fd)
{
	if (log->nconnecting == CONNECTING_MOST) /* somebody's return was lost */
		log->nconnecting = 0;
	log->connecting[log->nconnecting].tid = tid;
	log->connecting[log->nconnecting++].fd = fd;
}

static void end_connect(struct ip_descriptor_log *log, const struct ip_kernel_event_header *h)
{
	for (size_t i = 0; i < log->nconnecting; i++)
		if (log->connecting[i].tid == h->tid) {
			add(log, h, log->connecting[i].fd);
			log->connecting[i] = log->connecting[--log->nconnecting];
			return;
		}
}

/* Processes are not told apart here: a descriptor of the same number may be another process'.
 * That makes one unknown which is known, never the other way round. */
static void begin_call(struct ip_descriptor_log *log, unsigned number, const uint8_t *fields)
{
	if (number == SYS_close)
		spoil(log, argument(fields, 0), argument(fields, 0));
	else if (number == SYS_dup2 || number == SYS_dup3)
		spoil(log, argument(fields, 1), argument(fields, 1));
	else if (number == SYS_close_range)
		spoil(log, argument(fields, 0), argument(fields, 1));
	else if (number == SYS_execve || number == SYS_execveat)
		spoil(log, 0, INT32_MAX);
}

void ip_descriptor_log_event(struct ip_descriptor_log *log, const uint8_t *event)
{
	struct ip_kernel_event_header h;
	int64_t result;

	memcpy(&h, event, sizeof(h));
	if (h.id < IP_KERNEL_SYSCALL_ENTRY)
		return;
	if (h.id < IP_KERNEL_SYSCALL_EXIT) {
		begin_call(log, h.id - IP_KERNEL_SYSCALL_ENTRY, event + sizeof(h));
		if (h.id - IP_KERNEL_SYSCALL_ENTRY == SYS_connect)
			begin_connect(log, h.tid, argument(event + sizeof(h), 0));
		return;
	}
	memcpy(&result, event + sizeof(h), sizeof(result));
	if (h.id - IP_KERNEL_SYSCALL_EXIT == SYS_connect && (!result || result == -EINPROGRESS))
		end_connect(log, &h);
	if (result < 0 || result > INT32_MAX)
		return;
	if (makes(h.id - IP_KERNEL_SYSCALL_EXIT)) {
		if (log->pairs && result < TOUCHED_MOST)
			log->touched[result] = true;
		add(log, &h, result);
	} else if (makes_pair(h.id - IP_KERNEL_SYSCALL_EXIT)) {
		add(log, &h, -1);
		log->pairs = true;
	}
}

/* Pipes and pairs of sockets: their numbers are in the thread's memory. All that the process has
 * and that nobody has touched since is looked at; what was there before is noted once more. */
static void look_at_pairs(struct ip_descriptor_log *log, const struct made *pair)
{
	const struct ip_kernel_event_header h = {.tsc = pair->tsc, .tid = pair->tid};
	char path[32], link[8];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/fd", pair->tid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		const int fd = *entry->d_name >= '0' && *entry->d_name <= '9' ? atoi(entry->d_name)
									      : TOUCHED_MOST;

		if (fd < TOUCHED_MOST && !log->touched[fd] &&
		    readlinkat(dirfd(dir), entry->d_name, link, sizeof(link)) > 6 &&
		    (!memcmp(link, "pipe:[", 6) || !memcmp(link, "socket", 6)))
			add(log, &h, fd);
	}
}

bool ip_descriptor_log_look(struct ip_descriptor_log *log)
{
	const size_t n = log->n;

	for (size_t i = 0; i < n && log->pairs; i++)
		if (log->made[i].fd < 0)
			look_at_pairs(log, &log->made[i]);
	if (log->pairs)
		memset(log->touched, 0, sizeof(log->touched));
	log->pairs = false;
	for (size_t i = 0; i < log->n; i++) {
		struct made *m = &log->made[i];

		m->looked = true;
		if (m->fd < 0)
			continue;
		m->pid = m->spoiled ? -1 : ip_proc_status(m->tid, "Tgid");
		if (m->pid > 0 &&
		    ip_descriptor_name(m->tid, m->fd, &m->kind, m->text, sizeof(m->text)) < 0)
			m->kind = NULL;
	}
	return log->n;
}

void ip_descriptor_log_give_up(struct ip_descriptor_log *log)
{
	log->n = 0;
}

int ip_descriptor_log_write(struct ip_descriptor_log *log)
{
	size_t left = 0;

	for (size_t i = 0; i < log->n; i++) {
		const struct made *m = &log->made[i];

		if (!m->looked) /* it came in step 3: its turn comes */
			log->made[left++] = *m;
		else if (m->fd >= 0 && !m->spoiled && m->pid > 0 && m->kind)
			put(log, m->tsc, m->pid, m->fd, m->kind, m->text);
	}
	log->n = left;
	return check(log);
}
