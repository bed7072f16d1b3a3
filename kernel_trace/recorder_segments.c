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
#include "kernel_trace/segments/kernel_segments.h"

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

	if (ip_begin_states_write(&r->state, pid, calls, true) < 0 && ip_proc_started_at(pid))
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

struct cut {
	struct ip_kernel_recorder *recorder;
	uint64_t before; /* when the buffers began to be read */
};

static int flush(void *context)
{
	const struct cut *c = context;

	return ip_kernel_recorder_flush(c->recorder);
}

static struct ip_segment_begin sum(const struct ip_kernel_recorder *r)
{
	struct ip_segment_begin s = {.events = r->state.events};

	for (size_t i = 0; i < r->nbuffers; i++) {
		s.events += r->buffers[i].stream.events;
		s.lost += r->buffers[i].stream.lost;
	}
	return s;
}

static int begin(void *context, uint32_t number, struct ip_segment_begin *ret)
{
	const struct cut *c = context;
	struct ip_kernel_recorder *r = c->recorder;

	*ret = sum(r);
	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_cut(&r->buffers[i].stream, number,
					 up_to(&r->buffers[i], c->before)) < 0)
			return -1;
	if (ip_kernel_stream_cut(&r->state, number, 0) < 0 ||
	    (r->descriptors && ip_descriptor_log_cut(r->descriptors, number) < 0))
		return -1;
	return read_processes(r);
}

/* Step 3. */
static void remove_files(void *context, uint32_t number)
{
	const struct cut *c = context;
	const struct ip_kernel_recorder *r = c->recorder;

	for (size_t i = 0; i < r->nbuffers; i++)
		ip_recorded_segments_remove(r->dir, r->buffers[i].stream.name, number);
	ip_recorded_segments_remove(r->dir, r->state.name, number);
	ip_recorded_segments_remove(r->trace, IP_TRACE_DESCRIPTORS, number);
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
	struct ip_recorded_segments *s = &r->segments;
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
		if (name.segment >= s->newest)
			s->newest = name.segment + 1;
		if (name.segment < s->first)
			s->first = name.segment;
	}
	/* pieces count what is in them */
	r->begun = s->wanted ? 0 : bytes;
	s->wanted = s->newest;
	return 0;
}

int ip_kernel_recorder_cut(struct ip_kernel_recorder *r, uint64_t before)
{
	struct cut context = {r, before};
	const struct ip_segment_ops ops = {
		.flush = flush, .begin = begin, .remove = remove_files, .context = &context};

	return ip_recorded_segments_cut(&r->segments, &ops) < 0 ? -1 : 0;
}

int ip_kernel_recorder_write_out(struct ip_kernel_recorder *r, uint64_t before)
{
	for (size_t i = 0; i < r->nbuffers; i++)
		if (ip_kernel_stream_mark(&r->buffers[i].stream, up_to(&r->buffers[i], before)) < 0)
			return -1;
	return 0;
}

void ip_kernel_recorder_keep(struct ip_kernel_recorder *r, uint32_t first, uint32_t newest)
{
	ip_recorded_segments_keep(&r->segments, first, newest);
}

void ip_kernel_recorder_set_room(struct ip_kernel_recorder *r, uint64_t bytes)
{
	r->segments.room = bytes;
}

int ip_kernel_recorder_snapshot(struct ip_kernel_recorder *r, int trace, struct ip_ctf_metadata *m,
				struct ip_kernel_stats *ret)
{
	_cleanup_close_ int dir = -1;
	uint32_t first;

	if ((r->worker ? ip_worker_recorder_write_out(r->worker)
		       : ip_kernel_recorder_ask(r, WRITE_OUT, 0)) < 0)
		return -1;
	dir = ip_dir_make(trace, IP_KERNEL_SUBDIR);
	if (dir < 0)
		return ip_error_errno("cannot make the directory %s of the trace",
				      IP_KERNEL_SUBDIR);
	if (ip_kernel_recorder_stats(r, ret) < 0 ||
	    ip_kernel_segments_write(r->segments.kept, trace, UINT64_MAX, &first, &ret->bytes) <
		    0 ||
	    (r->probes && ip_kernel_functions_write(trace, &r->probes->functions) < 0))
		return -1;
	return ip_kernel_recorder_describe_in(r, dir, m);
}
