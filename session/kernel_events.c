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

static int describe(struct ip_session *s)
{
	struct utsname u = {0};
	struct ip_ctf_metadata m = {.tsc_hz = ip_trace_hz(s->trace),
				    .tsc_start = s->start.tsc,
				    .start_realtime_ns = s->start.realtime_ns,
				    .host = u.nodename};

	uname(&u);
	return ip_kernel_recorder_describe(s->kernel, &m);
}

int ip_session_kernel_begin(struct ip_session *s)
{
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
	if (s->options->service)
		return 0;
	if (ip_kernel_recorder_create(&s->options->kernel, ip_trace_dirfd(s->trace), &s->kernel) <
	    0)
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
	return ip_trace_limited_bytes(s->trace) >= s->summary->limit ? IP_END_SIZE_LIMIT
								     : IP_END_NONE;
}

int ip_session_kernel_end(struct ip_session *s)
{
	int ret;

	if (!s->kernel)
		return 0;
	ret = ip_kernel_recorder_stop(s->kernel);
	if (ret == 0)
		ret = count(s);
	ip_trace_add_kernel(s->trace, s->options->kernel.groups, s->summary->kernel.events,
			    s->summary->kernel.lost);
	return ret;
}

int ip_session_kernel_describe(struct ip_session *s)
{
	return s->kernel ? describe(s) : 0;
}
