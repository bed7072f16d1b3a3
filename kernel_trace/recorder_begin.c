/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the recorder of kernel events: its buffers, and where they come from.
 */
#include "kernel_trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"
#include "common/file.h"
#include "common/notice.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/event_layout.h"
#include "kernel_trace/kernel_probes.h"
#include "kernel_trace/recorder_private.h"
#include "kernel_trace/source_choice.h"
#include "kernel_trace/tracefs_source.h"
#include "kernel_trace/users/worker_recorder.h"

#define OTHER_FILES 256u /* that this process may have open besides */

static const char *const parts[IP_RECORD_PARTS] = {IP_KERNEL_ALL, IP_KERNEL_TARGET};

static int add_buffer(struct ip_kernel_recorder *r, enum ip_record_part part, unsigned cpu)
{
	struct buffer buffer = {.recorder = r, .part = part, .cpu = cpu};

	if (ip_array_grow(&r->buffers, r->nbuffers, sizeof(buffer)) < 0)
		return -1;
	ip_kernel_stream_init(&buffer.stream, r->dir, r->uuid, parts[part], cpu);
	buffer.stream.sink = r->sink;
	ip_kernel_stream_put_in(&buffer.stream, &r->segments);
	r->buffers[r->nbuffers++] = buffer;
	return 0;
}

static int make_polls(struct ip_kernel_recorder *r)
{
	r->polls = calloc(r->nbuffers + 1, sizeof(*r->polls));
	r->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!r->polls || r->wake < 0)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->nbuffers; i++)
		r->polls[i].events = POLLIN;
	r->polls[r->nbuffers] = (struct pollfd){.fd = r->wake, .events = POLLIN};
	return 0;
}

static bool takes_everywhere(const struct ip_kernel_recorder *r)
{
	return !r->sink || r->sink->everywhere;
}

/* Each CPU takes a file in each part: of many CPUs that is more than usual limits allow. */
static int check_descriptors(const bool needed[IP_RECORD_PARTS], unsigned cpus)
{
	const uint64_t files = (uint64_t)cpus * (needed[IP_RECORD_ALL] + needed[IP_RECORD_TARGET]) +
			       OTHER_FILES,
		       limit = ip_descriptor_limit_raise();

	if (files <= limit)
		return 0;
	return ip_error("events of the kernel of %u CPUs take %lu open files, and the limit is "
			"%lu: raise it (ulimit -Hn)",
			cpus, files, limit);
}

/* The parts that the groups need. */
static int make_buffers(struct ip_kernel_recorder *r)
{
	const unsigned everywhere = takes_everywhere(r) ? 1 << IP_KERNEL_GROUP_SCHED |
								  1 << IP_KERNEL_GROUP_BLOCK
							: 0,
		       cpus = ip_record_cpus();

	r->needed[IP_RECORD_ALL] = r->groups & everywhere;
	r->needed[IP_RECORD_TARGET] = r->groups & ~everywhere || r->probes;
	if (check_descriptors(r->needed, cpus) < 0)
		return -1;
	for (unsigned part = 0; part < IP_RECORD_PARTS; part++)
		for (unsigned cpu = 0; r->needed[part] && cpu < cpus; cpu++)
			if (add_buffer(r, part, cpu) < 0)
				return -1;
	return make_polls(r);
}

/* What is missing is told, once: nobody takes its absence for a machine on which it did not happen.
 */
static int tell_missing(const struct ip_kernel_recorder *r)
{
	_cleanup_free_ char *missing = ip_event_layout_missing(r->layout, r->groups);

	if (missing && *missing)
		ip_notice("this kernel cannot tell of %s: such events are missing", missing);
	return missing ? 0 : -1;
}

static int make_dir(struct ip_kernel_recorder *r, int dir)
{
	if (r->sink)
		return 0;
	r->dir = ip_dir_make(dir, IP_KERNEL_SUBDIR);
	if (r->dir < 0 && errno == EEXIST && r->resumes)
		r->dir = ip_dir_open(dir, IP_KERNEL_SUBDIR);
	if (r->dir < 0)
		return ip_error_errno("cannot make the directory %s of the trace",
				      IP_KERNEL_SUBDIR);
	return 0;
}

/* The probes of the kernel's functions, and their names in the trace. */
static int make_probes(struct ip_kernel_recorder *r, const struct ip_kernel_options *options,
		       int dir)
{
	if (!options->functions)
		return 0;
	if (ip_source_check_probes(options->source, &r->tracefs) < 0)
		return -1;
	ip_tracefs_source_remove_left();
	if (ip_kernel_probes_make(options->functions, &r->probes) < 0 ||
	    ip_event_layout_add_functions(r->layout, r->probes) < 0)
		return -1;
	r->stats.functions = r->probes->functions.n;
	return ip_kernel_functions_write(dir, &r->probes->functions);
}

static int make_source(struct ip_kernel_recorder *r, const struct ip_kernel_options *options)
{
	const struct ip_source_request request = {.source = options->source,
						  .groups = options->groups,
						  .all = r->needed[IP_RECORD_ALL],
						  .target = r->needed[IP_RECORD_TARGET],
						  .size = options->buffer,
						  .unwritten = r->sink && r->sink->everywhere,
						  .tracefs = &r->tracefs,
						  .layout = r->layout,
						  .probes = r->probes};

	r->source = ip_source_choose(&request);
	return r->source ? 0 : -1;
}

/* Paths are what they can be without: a kernel that loads no program of ours leaves addresses. */
static void make_paths(struct ip_kernel_recorder *r)
{
	const struct ip_record_source_ops *ops = r->source->ops;

	if (r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1 && (!r->sink || r->sink->path))
		r->paths = ip_path_ring_create(r->layout,
					       ops->threads ? ops->threads(r->source) : NULL);
}

int ip_kernel_recorder_create(const struct ip_kernel_options *options, int dir,
			      struct ip_kernel_recorder **ret)
{
	struct ip_kernel_recorder *r = calloc(1, sizeof(*r));
	pthread_condattr_t monotonic;

	if (!r)
		return ip_error("out of memory");
	r->groups = options->groups;
	r->trace = dir;
	r->dir = r->tracefs.fd = r->wake = -1;
	r->resumes = options->resumes;
	pthread_mutex_init(&r->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&r->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	r->sink = options->sink;
	ip_kernel_stream_init(&r->state, -1, r->uuid, IP_KERNEL_STATE,
			      r->sink ? IP_KERNEL_CPUS_MAX : 0);
	r->state.sink = r->sink;
	if (ip_recorded_segments_init(&r->segments, options) < 0) {
		ip_kernel_recorder_destroy(r);
		return -1;
	}
	if (getrandom(r->uuid, sizeof(r->uuid), 0) != sizeof(r->uuid)) {
		ip_kernel_recorder_destroy(r);
		return ip_error_errno("cannot make an id for the trace");
	}
	if (options->reader) {
		if (make_dir(r, dir) < 0 || ip_worker_recorder_create(options, dir, r->dir, r->uuid,
								      &r->segments, &r->worker) < 0)
			goto fail;
		*ret = r;
		return 0;
	}
	if (ip_tracefs_open(&r->tracefs) < 0)
		goto fail;
	r->layout = ip_event_layout_read();
	if (!r->layout || tell_missing(r) < 0 || make_dir(r, dir) < 0 ||
	    make_probes(r, options, dir) < 0 ||
	    (r->resumes && !r->segments.kept && ip_kernel_recorder_find_begun(r) < 0) ||
	    make_buffers(r) < 0 || make_source(r, options) < 0)
		goto fail;
	r->state.dir = r->dir;
	ip_kernel_stream_put_in(&r->state, &r->segments);
	if (r->groups >> IP_KERNEL_GROUP_SYSCALLS & 1 && !r->sink) {
		r->descriptors = ip_descriptor_log_open(dir, r->segments.any, r->segments.newest,
							r->segments.kept);
		if (!r->descriptors)
			goto fail;
	}
	make_paths(r);
	*ret = r;
	return 0;
fail:
	if (r->dir >= 0) /* nothing was written there yet */
		unlinkat(dir, IP_KERNEL_SUBDIR, AT_REMOVEDIR);
	ip_kernel_recorder_destroy(r);
	return -1;
}
