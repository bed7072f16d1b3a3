/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel events beside a session.
 */
#include "session/kernel_events.h"

#include <sys/utsname.h>

#include "common/error.h"
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
	if (ip_kernel_recorder_create(&s->options->kernel, s->target->pid, ip_trace_dirfd(s->trace),
				      &s->kernel) < 0)
		return -1;
	if (ip_trace_sync(s->trace) < 0 || describe(s) < 0)
		return -1;
	return ip_kernel_recorder_start(s->kernel);
}

static int count(struct ip_session *s)
{
	struct ip_kernel_stats stats;
	int ret = ip_kernel_recorder_stats(s->kernel, &stats);

	ip_trace_add_bytes(s->trace, stats.bytes - s->summary->kernel.bytes);
	s->summary->kernel = stats;
	return ret;
}

int ip_session_kernel_step(struct ip_session *s)
{
	return s->kernel && !s->kernel_failed ? count(s) : 0;
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
