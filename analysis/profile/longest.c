/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of the trace. Which calls count is the same as in stats.c.
 */
#include "analysis/profile/longest.h"

#include <stdlib.h>

#include "common/error.h"

struct search {
	const struct ip_trace_reader *trace;
	struct ip_longest_call *calls;
	size_t run;
};

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	frame->tag = depth < UINT32_MAX ? depth : UINT32_MAX;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct search *s = context;
	struct ip_longest_call *call = &s->calls[frame->function];
	uint64_t ticks = ip_frame_ticks(frame, end);

	if (how == IP_END_UNFINISHED || how == IP_END_UNKNOWN ||
	    frame->flags & (IP_FRAME_SUSPECT | IP_FRAME_EARLIER))
		return;
	if (call->run != IP_NO_RUN && ticks <= call->ticks)
		return;
	*call = (struct ip_longest_call){.run = s->run,
					 .start = frame->start,
					 .end = end,
					 .ticks = ticks,
					 .depth = frame->tag};
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct search *s = context;

	s->run = run - s->trace->runs;
}

int ip_longest_find(struct ip_trace_reader *trace, struct ip_longest_call **ret)
{
	static const struct ip_frames_ops ops = {.opened = on_opened, .closed = on_closed};
	struct search s = {.trace = trace};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &s, .run = on_run};
	size_t n = trace->session->nfunctions;
	uint64_t events;

	s.calls = calloc(n, sizeof(*s.calls));
	if (!s.calls)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		s.calls[i].run = IP_NO_RUN;
	if (ip_trace_reader_visit(trace, &visitor, &events) < 0) {
		free(s.calls);
		return -1;
	}
	*ret = s.calls;
	return 0;
}
