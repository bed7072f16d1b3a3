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

#include "common/arch/syscalls.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/now.h"
#include "common/proc.h"
#include "common/trace/call_path.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/descriptor_name.h"
#include "kernel_trace/segments/kernel_segments.h"

#define TEXT_MAX     256
#define CALLS_MOST   64u     /* that are open at once */
#define WAITED_TICKS 100000u /* an open(2) that takes longer may be that of a FIFO */
#define NUMBERS	     4096    /* of descriptors, of which times are kept one by one */
#define LOOK_NS                                                                                    \
	5000000ull /* of the CPU: the most that a look takes; the buffers fill up meanwhile */

#define PATHS_MOST	   (96u << 20) /* bytes of lines of paths */
#define SEGMENT_PATHS_MOST (1u << 20)  /* of a segment */

/* A descriptor that was made. fd -1: several were, whose numbers are in the thread's memory. */
struct made {
	uint64_t tsc;
	int32_t tid, fd;
	bool looked;
	bool waited; /* the call took long */
	pid_t pid;
	const char *kind; /* NULL: it is gone, or was not looked at */
	char text[TEXT_MAX];
};

/* The last time that some process has made, closed or named a descriptor of a number. Processes are
 * not told apart: that makes one unknown which is known, never the other way round. */
struct times {
	uint64_t made, closed, noted;
};

struct ip_descriptor_log {
	FILE *out;
	int dir;
	bool in_segments;
	uint32_t segment;
	struct ip_kernel_segments *kept; /* NULL: out is the file. Else it is text: */
	char *text;
	size_t size;
	uint64_t bytes;
	uint64_t paths_left; /* bytes */
	uint64_t paths_from; /* TSC: from then on paths are missing; 0: none is */
	struct ip_descriptor_names *names;
	/* sockets that are being connected, and opens of files: what they are is known when the
	 * call returns */
	struct call {
		uint64_t tsc; /* of its begin */
		int32_t tid, fd;
	} calls[CALLS_MOST];
	size_t ncalls;
	struct made made[IP_DESCRIPTORS_MOST];
	size_t n;
	struct times times[NUMBERS + 1]; /* the last one: of all larger numbers */
};

static void name_file(const struct ip_descriptor_log *log, char ret[48])
{
	snprintf(ret, 48, log->in_segments ? IP_TRACE_DESCRIPTORS "-%u" : IP_TRACE_DESCRIPTORS,
		 log->segment);
}

static int open_out(struct ip_descriptor_log *log)
{
	char name[48];
	int fd = -1;

	name_file(log, name);
	if (log->kept) {
		log->out = open_memstream(&log->text, &log->size);
		return log->out ? 0 : ip_error("out of memory");
	}
	fd = ip_file_make(log->dir, name, O_WRONLY | O_APPEND);
	log->out = fd < 0 ? NULL : fdopen(fd, "a");
	if (log->out)
		return 0;
	ip_error_errno("cannot make %s", name);
	if (fd >= 0)
		close(fd);
	return -1;
}

struct ip_descriptor_log *ip_descriptor_log_open(int dir, bool in_segments, uint32_t segment,
						 struct ip_kernel_segments *kept)
{
	struct ip_descriptor_log *log = calloc(1, sizeof(*log));

	if (log)
		log->names = ip_descriptor_names_create();
	if (!log || !log->names) {
		free(log);
		ip_error("out of memory");
		return NULL;
	}
	log->dir = dir;
	log->in_segments = in_segments;
	log->segment = segment;
	log->kept = kept;
	log->paths_left = in_segments ? SEGMENT_PATHS_MOST : PATHS_MOST;
	if (open_out(log) == 0)
		return log;
	ip_descriptor_names_destroy(log->names);
	free(log);
	return NULL;
}

void ip_descriptor_log_close(struct ip_descriptor_log *log)
{
	if (!log)
		return;
	if (log->out)
		fclose(log->out);
	free(log->text);
	ip_descriptor_names_destroy(log->names);
	free(log);
}

uint64_t ip_descriptor_log_bytes(const struct ip_descriptor_log *log)
{
	return log->bytes;
}

static struct times *times_of(struct ip_descriptor_log *log, int32_t fd)
{
	return &log->times[fd >= 0 && fd < NUMBERS ? fd : NUMBERS];
}

/* Control characters would break the line. */
static void put(struct ip_descriptor_log *log, uint64_t tsc, pid_t pid, int fd, const char *kind,
		const char *text)
{
	int n = fprintf(log->out, "%lu\t%d\t%d\t%s\t", tsc, pid, fd, kind);

	log->bytes += (n > 0 ? n : 0) + strlen(text) + 1;
	for (; *text; text++)
		putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, log->out);
	putc('\n', log->out);
	times_of(log, fd)->noted = tsc;
}

/* What was put is kept in memory. */
static int keep(struct ip_descriptor_log *log)
{
	char name[48];
	int ret;

	fclose(ip_steal_ptr(log->out));
	name_file(log, name);
	ret = log->size ? ip_kernel_segments_add(log->kept, name, log->text, log->size) : 0;
	free(ip_steal_ptr(log->text));
	return ret < 0 ? -1 : open_out(log);
}

static int check(struct ip_descriptor_log *log)
{
	if (fflush(log->out) == 0 && !ferror(log->out))
		return log->kept ? keep(log) : 0;
	return ip_error_errno("cannot write %s", IP_TRACE_DESCRIPTORS);
}

int ip_descriptor_log_cut(struct ip_descriptor_log *log, uint32_t segment)
{
	if (check(log) < 0)
		return -1;
	fclose(ip_steal_ptr(log->out));
	free(ip_steal_ptr(log->text));
	log->segment = segment;
	log->paths_left = SEGMENT_PATHS_MOST;
	return open_out(log);
}

bool ip_descriptor_log_may_look(pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	return dir || (errno != EACCES && errno != EPERM);
}

int ip_descriptor_log_scan(struct ip_descriptor_log *log, pid_t pid, uint64_t tsc)
{
	const uint64_t until = ip_now_ns() + 20 * LOOK_NS;
	char path[32], text[TEXT_MAX];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	const char *kind;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	ip_descriptor_names_renew(log->names);
	while (dir && (entry = readdir(dir)) && ip_now_ns() < until)
		if (*entry->d_name >= '0' && *entry->d_name <= '9' &&
		    ip_descriptor_name(log->names, pid, atoi(entry->d_name), false, &kind, text,
				       sizeof(text)) == 0)
			put(log, tsc, pid, atoi(entry->d_name), kind, text);
	return check(log);
}

static bool makes_pair(unsigned number)
{
	return number == SYS_pipe || number == SYS_pipe2 || number == SYS_socketpair;
}

static void add(struct ip_descriptor_log *log, uint64_t tsc, int32_t tid, int32_t fd, bool waited)
{
	if (fd >= 0 && times_of(log, fd)->made < tsc)
		times_of(log, fd)->made = tsc;
	if (log->n < IP_DESCRIPTORS_MOST)
		log->made[log->n++] =
			(struct made){.tsc = tsc, .tid = tid, .fd = fd, .waited = waited};
}

static void closed(struct ip_descriptor_log *log, uint64_t tsc, uint32_t from, uint32_t to)
{
	for (uint32_t fd = from; fd < NUMBERS && fd <= to; fd++)
		if (log->times[fd].closed < tsc)
			log->times[fd].closed = tsc;
	if (to >= NUMBERS && log->times[NUMBERS].closed < tsc)
		log->times[NUMBERS].closed = tsc;
}

/* The kernel takes the lower half of the register. */
static uint32_t argument(const uint8_t *fields, unsigned i)
{
	uint32_t value;

	memcpy(&value, fields + 8 * i, sizeof(value));
	return value;
}

static void begin_one(struct ip_descriptor_log *log, uint64_t tsc, int32_t tid, int32_t fd)
{
	size_t i = 0;

	while (i < log->ncalls && log->calls[i].tid != tid)
		i++;
	if (i == CALLS_MOST) /* returns were lost */
		i = log->ncalls = 0;
	log->calls[i] = (struct call){.tsc = tsc, .tid = tid, .fd = fd};
	log->ncalls += i == log->ncalls;
}

/* The call that a thread has begun. Returns whether it is known. */
static bool end_one(struct ip_descriptor_log *log, int32_t tid, struct call *ret)
{
	for (size_t i = 0; i < log->ncalls; i++)
		if (log->calls[i].tid == tid) {
			*ret = log->calls[i];
			log->calls[i] = log->calls[--log->ncalls];
			return true;
		}
	return false;
}

/* An open whose begin is not known had begun before the recording: it took long. */
static bool end_open(struct ip_descriptor_log *log, uint64_t tsc, int32_t tid)
{
	struct call call;

	return !end_one(log, tid, &call) || tsc - call.tsc > WAITED_TICKS;
}

static bool is_open(unsigned number)
{
	return number == SYS_openat || number == SYS_open || number == SYS_openat2 ||
	       number == SYS_creat;
}

static void begin_call(struct ip_descriptor_log *log, const struct ip_kernel_event_header *h,
		       const uint8_t *fields)
{
	switch (h->id - IP_KERNEL_SYSCALL_ENTRY) {
	case SYS_close:
		closed(log, h->tsc, argument(fields, 0), argument(fields, 0));
		break;
	case SYS_dup2:
	case SYS_dup3:
		closed(log, h->tsc, argument(fields, 1), argument(fields, 1));
		break;
	case SYS_close_range:
		closed(log, h->tsc, argument(fields, 0), argument(fields, 1));
		break;
	case SYS_execve:
	case SYS_execveat:
		closed(log, h->tsc, 0, UINT32_MAX);
		break;
	case SYS_connect:
		begin_one(log, h->tsc, h->tid, argument(fields, 0));
		break;
	case SYS_open:
	case SYS_openat:
	case SYS_openat2:
	case SYS_creat:
		begin_one(log, h->tsc, h->tid, -1);
		break;
	default:
		break;
	}
}

void ip_descriptor_log_event(struct ip_descriptor_log *log, const uint8_t *event)
{
	struct ip_kernel_event_header h;
	struct call call;
	unsigned number;
	int64_t result;
	bool waited;

	memcpy(&h, event, sizeof(h));
	if (h.id < IP_KERNEL_SYSCALL_ENTRY)
		return;
	if (h.id < IP_KERNEL_SYSCALL_EXIT) {
		begin_call(log, &h, event + sizeof(h));
		return;
	}
	number = h.id - IP_KERNEL_SYSCALL_EXIT;
	memcpy(&result, event + sizeof(h), sizeof(result));
	waited = is_open(number) && end_open(log, h.tsc, h.tid);
	if (number == SYS_connect && end_one(log, h.tid, &call) &&
	    (!result || result == -EINPROGRESS))
		add(log, h.tsc, h.tid, call.fd, false);
	else if (result >= 0 && result <= INT32_MAX && ip_syscall_returns_descriptor(number))
		add(log, h.tsc, h.tid, result, waited);
	else if (result == 0 && makes_pair(number))
		add(log, h.tsc, h.tid, -1, false);
}

/* Pipes and pairs of sockets: their numbers are in the thread's memory. What the process has, and
 * what is neither known nor was made or closed since, is looked at. */
static void look_at_pair(struct ip_descriptor_log *log, uint64_t tsc, int32_t tid)
{
	char path[32], link[8];
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/fd", tid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		const int fd = *entry->d_name >= '0' && *entry->d_name <= '9' ? atoi(entry->d_name)
									      : NUMBERS;
		const struct times *t = times_of(log, fd);

		if (fd < NUMBERS && t->made <= tsc && t->closed <= tsc &&
		    (!t->noted || t->noted <= t->closed) &&
		    readlinkat(dirfd(dir), entry->d_name, link, sizeof(link)) > 6 &&
		    (!memcmp(link, "pipe:[", 6) || !memcmp(link, "socket", 6)))
			add(log, tsc, tid, fd, false);
	}
}

bool ip_descriptor_log_look(struct ip_descriptor_log *log)
{
	const uint64_t until = ip_thread_cpu_ns() + LOOK_NS;
	const size_t n = log->n;

	for (size_t i = 0; i < n; i++)
		if (log->made[i].fd < 0 && !log->made[i].looked) {
			log->made[i].looked = true;
			look_at_pair(log, log->made[i].tsc, log->made[i].tid);
		}
	if (log->n)
		ip_descriptor_names_renew(log->names);
	for (size_t i = 0; i < log->n; i++) {
		struct made *m = &log->made[i];

		if (ip_thread_cpu_ns() > until) /* the rest has its turn later */
			break;
		m->looked = true;
		if (m->fd < 0)
			continue;
		m->pid = ip_proc_status(m->tid, "Tgid");
		if (m->pid > 0 && ip_descriptor_name(log->names, m->tid, m->fd, m->waited, &m->kind,
						     m->text, sizeof(m->text)) < 0)
			m->kind = NULL;
	}
	return log->n;
}

uint64_t ip_descriptor_log_oldest(const struct ip_descriptor_log *log)
{
	uint64_t oldest = UINT64_MAX;

	for (size_t i = 0; i < log->n; i++)
		oldest = log->made[i].tsc < oldest ? log->made[i].tsc : oldest;
	return oldest;
}

void ip_descriptor_log_give_up(struct ip_descriptor_log *log)
{
	log->n = log->ncalls = 0;
}

int ip_descriptor_log_write(struct ip_descriptor_log *log)
{
	size_t left = 0;

	for (size_t i = 0; i < log->n; i++) {
		const struct made *m = &log->made[i];

		if (!m->looked) /* it came in step 3: its turn comes */
			log->made[left++] = *m;
		else if (m->kind && times_of(log, m->fd)->closed < m->tsc)
			put(log, m->tsc, m->pid, m->fd, m->kind, m->text);
	}
	log->n = left;
	return check(log);
}

static void put_path(struct ip_descriptor_log *log, const struct ip_call_path *path)
{
	const uint64_t bytes = ip_call_path_write(log->out, path);

	log->bytes += bytes;
	log->paths_left -= bytes < log->paths_left ? bytes : log->paths_left;
}

void ip_descriptor_log_path(struct ip_descriptor_log *log, const struct ip_call_path *path)
{
	const struct ip_call_path gap = {.tsc = log->paths_from, .address = path->tsc};

	if (!log->paths_left) {
		log->paths_from = log->paths_from ? log->paths_from : path->tsc;
		return;
	}
	if (log->paths_from) /* the segment before had no room for them */
		put_path(log, &gap);
	log->paths_from = 0;
	put_path(log, path);
}

int ip_descriptor_log_paths_end(struct ip_descriptor_log *log)
{
	return check(log);
}
