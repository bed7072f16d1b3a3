/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of the kernel's events. recorder.h has the steps.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/proc.h"
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "kernel_trace/begin_states.h"
#include "kernel_trace/recorder_private.h"

/* Up to which all events of a buffer have come. before: when the buffers began to be read. */
static uint64_t up_to(const struct buffer *buffer, uint64_t before)
{
	return buffer->more && buffer->stream.end < before ? buffer->stream.end : before;
}

struct processes {
	pid_t *pids;
	size_t n;
};

static int add_process(struct processes *p, pid_t pid)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->pids[i] == pid)
			return 0;
	if (ip_array_grow(&p->pids, p->n, sizeof(*p->pids)) < 0)
		return -1;
	p->pids[p->n++] = pid;
	return 0;
}

static int add_process_of(void *context, pid_t tid)
{
	const long pid = ip_proc_status(tid, "Tgid");

	return pid > 0 ? add_process(context, pid) : 0;
}

/* The processes that are recorded now: those of the threads on the source's list, on which are also
 * those that the targets have made. Without a list, those that have joined. */
static int list_processes(const struct ip_kernel_recorder *r, struct processes *ret)
{
	int listed = 1;

	if (r->needed[IP_RECORD_TARGET])
		listed = r->source->ops->list(r->source, add_process_of, ret);
	if (listed <= 0)
		return listed;
	for (size_t i = 0; i < r->ntargets; i++)
		if (add_process(ret, r->targets[i]) < 0)
			return -1;
	return 0;
}

/* Step 2, of one process. One that has ended meanwhile has no states. */
static int read_process(struct ip_kernel_recorder *r, pid_t pid, uint64_t now)
{
	const bool calls = r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1;

	if (ip_begin_states_write(&r->state, pid, calls) < 0 && ip_proc_started_at(pid))
		return -1;
	return r->descriptors ? ip_descriptor_log_scan(r->descriptors, pid, now) : 0;
}

static int read_processes(struct ip_kernel_recorder *r)
{
	const uint64_t now = ip_clock_now();
	struct processes p = {0};
	int ret = list_processes(r, &p);

	for (size_t i = 0; ret == 0 && i < p.n; i++)
		ret = read_process(r, p.pids[i], now);
	free(p.pids);
	return ret;
}

static struct segment_begin sum(const struct ip_kernel_recorder *r)
{
	struct segment_begin s = {.events = r->state.events};

	for (size_t i = 0; i < r->nbuffers; i++) {
		s.events += r->buffers[i].stream.events;
		s.lost += r->buffers[i].stream.lost;
	}
	return s;
}

static int begin(struct ip_kernel_recorder *r, uint32_t number, uint64_t before)
{
	r->begins[number % IP_TRACE_SEGMENTS_ROOM] = sum(r);
	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_cut(&r->buffers[i].stream, number,
					 up_to(&r->buffers[i], before)) < 0)
			return -1;
	if (ip_kernel_stream_cut(&r->state, number, 0) < 0 ||
	    (r->descriptors && ip_descriptor_log_cut(r->descriptors, number) < 0))
		return -1;
	r->segment = number;
	return read_processes(r);
}

static void remove_one(int dir, const char *name)
{
	/* one that stays is older than the oldest segment: readers pass over it */
	(void)unlinkat(dir, name, 0);
}

/* Step 3: the oldest first, so that no segment is missing between others. */
static void remove_up_to(struct ip_kernel_recorder *r, uint32_t first)
{
	char name[64];

	for (; r->first < first; r->first++) {
		for (size_t i = 0; i < r->nbuffers; i++) {
			snprintf(name, sizeof(name), "%s-%u", r->buffers[i].stream.name, r->first);
			remove_one(r->dir, name);
		}
		snprintf(name, sizeof(name), "%s-%u", r->state.name, r->first);
		remove_one(r->dir, name);
		snprintf(name, sizeof(name), IP_TRACE_DESCRIPTORS "-%u", r->first);
		remove_one(r->trace, name);
	}
}

/* The id of the trace in the first packet of a stream. */
static bool read_id(const struct ip_kernel_recorder *r, const char *name, uint8_t ret[16])
{
	_cleanup_close_ int fd =
		openat(r->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct ip_kernel_packet_header h;

	if (fd < 0 || pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != IP_CTF_MAGIC)
		return false;
	memcpy(ret, h.uuid, sizeof(h.uuid));
	return true;
}

int ip_kernel_recorder_find_begun(struct ip_kernel_recorder *r)
{
	int fd = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	uint64_t bytes = 0;
	bool known = false;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return ip_error_errno("cannot read the directory %s of the trace",
				      IP_KERNEL_SUBDIR);
	}
	while ((entry = readdir(dir))) {
		struct ip_kernel_stream_name name;
		struct stat st;

		if (!ip_kernel_stream_name_parse(entry->d_name, &name))
			continue;
		known = known || read_id(r, entry->d_name, r->uuid);
		if (fstatat(r->dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			bytes += st.st_size;
		if (!name.in_segments)
			continue;
		if (name.segment >= r->segment)
			r->segment = name.segment + 1;
		if (name.segment < r->first)
			r->first = name.segment;
	}
	/* pieces count what is in them */
	r->begun = r->wanted ? 0 : bytes;
	r->wanted = r->segment;
	return 0;
}

int ip_kernel_recorder_cut(struct ip_kernel_recorder *r, uint64_t before)
{
	uint32_t number;

	if (r->kept) {
		r->first = ip_kernel_segments_first(r->kept);
		if (!ip_kernel_segments_is_full(r->kept))
			return 0;
		number = r->segment + 1;
		/* what is gathered belongs to the segment that ends */
		for (size_t i = 0; i < r->nbuffers; i++)
			if (ip_kernel_stream_flush(&r->buffers[i].stream) < 0)
				return -1;
		if (ip_kernel_segments_begin(r->kept) != number)
			return 0;
		r->first = ip_kernel_segments_first(r->kept);
		return begin(r, number, before);
	}
	number = __atomic_load_n(&r->wanted, __ATOMIC_ACQUIRE);
	if (!r->in_segments || number == r->segment)
		return 0;
	/* all numbers have files: a number that has none tells that something is missing */
	while (r->segment < number)
		if (begin(r, r->segment + 1, before) < 0)
			return -1;
	remove_up_to(r, __atomic_load_n(&r->wanted_first, __ATOMIC_ACQUIRE));
	return 0;
}

int ip_kernel_recorder_write_out(struct ip_kernel_recorder *r, uint64_t before)
{
	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_mark(&r->buffers[i].stream, up_to(&r->buffers[i], before)) < 0)
			return -1;
	return 0;
}

void ip_kernel_recorder_count_dropped(const struct ip_kernel_recorder *r,
				      struct ip_kernel_stats *stats)
{
	const struct segment_begin *begin = &r->begins[r->first % IP_TRACE_SEGMENTS_ROOM];

	stats->events -= begin->events;
	stats->lost -= begin->lost;
	stats->dropped = begin->events;
}

void ip_kernel_recorder_keep(struct ip_kernel_recorder *r, uint32_t first, uint32_t newest)
{
	__atomic_store_n(&r->wanted_first, first, __ATOMIC_RELEASE);
	__atomic_store_n(&r->wanted, newest, __ATOMIC_RELEASE);
}

void ip_kernel_recorder_set_room(struct ip_kernel_recorder *r, uint64_t bytes)
{
	r->room = bytes;
}

int ip_kernel_recorder_snapshot(struct ip_kernel_recorder *r, int trace, struct ip_ctf_metadata *m,
				struct ip_kernel_stats *ret)
{
	_cleanup_close_ int dir = -1;
	uint32_t first;

	if (ip_kernel_recorder_ask(r, WRITE_OUT, 0) < 0)
		return -1;
	dir = ip_dir_make(trace, IP_KERNEL_SUBDIR);
	if (dir < 0)
		return ip_error_errno("cannot make the directory %s of the trace",
				      IP_KERNEL_SUBDIR);
	if (ip_kernel_recorder_stats(r, ret) < 0 ||
	    ip_kernel_segments_write(r->kept, trace, UINT64_MAX, &first, &ret->bytes) < 0 ||
	    (r->probes && ip_kernel_functions_write(trace, &r->probes->functions) < 0))
		return -1;
	return ip_kernel_recorder_describe_in(r, dir, m);
}
