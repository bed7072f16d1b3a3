/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel events beside a session.
 */
#include "session/kernel_events.h"

#include <sys/utsname.h>

#include "access/worker_client.h"
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

/* What stands in the way before anything is begun. */
static int check(const struct ip_session *s)
{
	if (ip_clock_selected() != IP_CLOCK_TSC)
		return ip_error("kernel events have the times of the TSC, which cannot be trusted "
				"here: leave --kernel out, or take --clock tsc all the same");
	if (s->options->kernel.groups >> IP_KERNEL_GROUP_SYSCALLS & 1 &&
	    s->target->arch->bits == 32)
		return ip_error("pid %d: system calls of 32-bit programs cannot be told apart from "
				"those of others: take --kernel=sched,irq,faults",
				s->target->pid);
	return 0;
}

/* Through iprobed, events of the kernel are what its reader gives: no more than a trace of them. */
static int check_reader(const struct ip_kernel_options *o)
{
	if (!o->resumes && !o->functions)
		return 0;
	return ip_error("iprobed gives events of the kernel without --resume and "
			"--kernel-functions: leave these out");
}

/* What the recorder is to do for the trace. */
static int choose(struct ip_session *s, struct ip_kernel_options *o)
{
	if (ip_worker_client_no_events())
		return ip_error("%s", ip_worker_client_no_events());
	if (!o->reader)
		o->reader = ip_worker_client_events();
	o->in_segments = ip_trace_rotates(s->trace);
	/* as much as of the events of functions */
	o->keep = s->options->overwrite ? s->options->memory : 0;
	o->resumes = s->options->resume;
	if (o->reader && check_reader(o) < 0)
		return -1;
	/* the newest piece may have events of the kernel, of the iprobe that was killed */
	return o->resumes && o->in_segments ? ip_trace_rotate_now(s->trace, &o->segment) : 0;
}

int ip_session_kernel_begin(struct ip_session *s)
{
	const bool others = s->options->service && !s->options->service->own_kernel;
	struct ip_kernel_options o = s->options->kernel;

	if (!o.groups)
		return 0;
	if (check(s) < 0 ||
	    (!others && (choose(s, &o) < 0 ||
			 ip_kernel_recorder_create(&o, ip_trace_dirfd(s->trace), &s->kernel) < 0)))
		return o.optional ? ip_kernel_go_without(&s->summary->kernel) : -1;
	if (others)
		return 0;
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

/* Tells once that not all events are recorded. A full disk ends a recording as it ends one without
 * these events, and the summary tells it. */
static enum ip_end_reason fail(struct ip_session *s)
{
	if (s->summary->kernel.no_space)
		return IP_END_NO_SPACE;
	if (!s->summary->kernel_failed)
		ip_notice("%s", ip_error_message());
	s->summary->kernel_failed = true;
	return IP_END_WRITE_FAILED;
}

enum ip_end_reason ip_session_kernel_step(struct ip_session *s)
{
	if (!s->options->kernel.groups)
		return IP_END_NONE;
	if (s->kernel && count(s) < 0)
		return fail(s);
	if (ip_trace_rotates(s->trace))
		return rotate(s) < 0 ? fail(s) : IP_END_NONE;
	return ip_trace_limited_bytes(s->trace) >= s->summary->limit ? IP_END_SIZE_LIMIT
								     : IP_END_NONE;
}

void ip_session_kernel_end(struct ip_session *s)
{
	uint64_t written;
	int ret;

	if (!s->kernel)
		return;
	written = ip_trace_bytes(s->trace);
	ip_kernel_recorder_set_room(s->kernel,
				    s->summary->limit > written ? s->summary->limit - written : 0);
	ret = ip_kernel_recorder_stop(s->kernel);
	if (ret == 0)
		ret = count(s);
	if (ret < 0)
		fail(s);
	ip_trace_add_kernel(s->trace, s->options->kernel.groups, s->summary->kernel.events,
			    s->summary->kernel.lost, s->summary->kernel.source);
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

	if (!s->kernel || s->summary->kernel_failed)
		return 0;
	if (ip_kernel_recorder_snapshot(s->kernel, ip_trace_dirfd(trace), &m, &stats) < 0)
		return -1;
	ip_trace_add_kernel(trace, s->options->kernel.groups, stats.events, stats.lost,
			    stats.source);
	return 0;
}
