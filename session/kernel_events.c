/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel events beside a session.
 */
#include "session/kernel_events.h"

#include <sys/utsname.h>

#include "common/error.h"
#include "common/notice.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/recorder.h"
#include "session/session_private.h"

static struct ip_ctf_metadata metadata(const struct ip_session *s, struct utsname *u)
{
	uname(u);
	return (struct ip_ctf_metadata){.tsc_hz = ip_trace_hz(s->trace),
					.tsc_start = s->start.tsc,
					.start_realtime_ns = s->start.realtime_ns,
					.host = u->nodename};
}

static int describe(struct ip_session *s)
{
	struct utsname u = {0};
	struct ip_ctf_metadata m = metadata(s, &u);

	return ip_kernel_recorder_describe(s->kernel, &m);
}

int ip_session_kernel_begin(struct ip_session *s)
{
	struct ip_kernel_options options = s->options->kernel;

	if (!s->options->kernel.groups)
		return 0;
	if (ip_clock_selected() != IP_CLOCK_TSC)
		return ip_error("kernel events have the times of the TSC, which cannot be trusted "
				"here: leave --kernel out, or take --clock tsc all the same");
	if (s->options->kernel.groups >> IP_KERNEL_GROUP_SYSCALLS & 1 &&
	    s->target->arch->bits == 32)
		return ip_error("pid %d: system calls of 32-bit programs cannot be told apart from "
				"those of others: take --kernel=sched,irq,faults",
				s->target->pid);
	if (s->options->service && !s->options->service->own_kernel)
		return 0;
	options.in_segments = ip_trace_rotates(s->trace);
	/* as much as of the events of functions */
	options.keep = s->options->overwrite ? s->options->memory : 0;
	options.resumes = s->options->resume;
	/* the newest piece may have events of the kernel, of the iprobe that was killed */
	if (options.resumes && options.in_segments &&
	    ip_trace_rotate_now(s->trace, &options.segment) < 0)
		return -1;
	if (ip_kernel_recorder_create(&options, ip_trace_dirfd(s->trace), &s->kernel) < 0)
		return -1;
	if (ip_trace_sync(s->trace) < 0 || describe(s) < 0)
		return -1;
	return ip_kernel_recorder_start(s->kernel) < 0
		       ? -1
		       : ip_kernel_recorder_add(s->kernel, s->target->pid);
}

static int count(struct ip_session *s)
{
	struct ip_kernel_stats stats;
	int ret = ip_kernel_recorder_stats(s->kernel, &stats);

	ip_trace_add_bytes(s->trace, stats.bytes - s->summary->kernel.bytes);
	s->summary->kernel = stats;
	return ret;
}

/* The segments are those of the trace. Where events of functions are rare, those of the kernel fill
 * the newest one. */
static int rotate(struct ip_session *s)
{
	uint32_t first, newest;

	if (ip_trace_rotate_if_full(s->trace, &first, &newest) < 0)
		return -1;
	if (s->kernel)
		ip_kernel_recorder_keep(s->kernel, first, newest);
	return 0;
}

enum ip_end_reason ip_session_kernel_step(struct ip_session *s)
{
	if (!s->options->kernel.groups || s->kernel_failed)
		return IP_END_NONE;
	if (s->kernel && count(s) < 0) {
		s->kernel_failed = true;
		if (s->summary->kernel.no_space)
			return IP_END_NO_SPACE;
		ip_notice("%s", ip_error_message());
		return IP_END_WRITE_FAILED;
	}
	if (ip_trace_rotates(s->trace)) {
		if (rotate(s) == 0)
			return IP_END_NONE;
		ip_notice("%s", ip_error_message());
		return IP_END_WRITE_FAILED;
	}
	return ip_trace_limited_bytes(s->trace) >= s->summary->limit ? IP_END_SIZE_LIMIT
								     : IP_END_NONE;
}

int ip_session_kernel_end(struct ip_session *s)
{
	uint64_t written;
	int ret;

	if (!s->kernel)
		return 0;
	written = ip_trace_bytes(s->trace);
	ip_kernel_recorder_set_room(s->kernel,
				    s->summary->limit > written ? s->summary->limit - written : 0);
	ret = ip_kernel_recorder_stop(s->kernel);
	if (ret == 0)
		ret = count(s);
	ip_trace_add_kernel(s->trace, s->options->kernel.groups, s->summary->kernel.events,
			    s->summary->kernel.lost, s->summary->kernel.source);
	return ret;
}

int ip_session_kernel_describe(struct ip_session *s)
{
	return s->kernel ? describe(s) : 0;
}

int ip_session_kernel_snapshot(struct ip_session *s, struct ip_trace *trace)
{
	struct ip_kernel_stats stats;
	struct utsname u = {0};
	struct ip_ctf_metadata m = metadata(s, &u);

	if (!s->kernel || s->kernel_failed)
		return 0;
	if (ip_kernel_recorder_snapshot(s->kernel, ip_trace_dirfd(trace), &m, &stats) < 0)
		return -1;
	ip_trace_add_kernel(trace, s->options->kernel.groups, stats.events, stats.lost,
			    stats.source);
	return 0;
}
