/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the numbers of a thread's open calls.
 */
#include "analysis/callstack/open_calls.h"

#include <stdlib.h>

#include "common/error.h"

struct reader {
	const struct ip_open_calls_ops *ops;
	void *context;
	uint32_t unknown;
	uint32_t *stack; /* by depth */
	size_t n, room;
	bool skips, failed;
};

static void pass(struct reader *r, uint64_t ts)
{
	r->ops->pass(r->context, r->n ? &r->stack[r->n - 1] : NULL, ts);
}

static void push(struct reader *r, size_t depth, uint32_t number)
{
	if (depth >= r->room) {
		size_t room = r->room ? 2 * r->room : 256;
		uint32_t *stack;

		while (room <= depth)
			room *= 2;
		stack = reallocarray(r->stack, room, sizeof(*stack));
		if (!stack) {
			r->failed = true;
			ip_error("out of memory");
			return;
		}
		r->stack = stack;
		r->room = room;
	}
	for (; r->n < depth; r->n++)
		r->stack[r->n] = r->unknown;
	r->stack[depth] = number;
	r->n = depth + 1;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;
	const uint32_t *above = depth && depth <= r->n ? &r->stack[depth - 1] : NULL;
	uint32_t number;

	if (r->skips || r->failed)
		return;
	pass(r, frame->start);
	if (r->ops->opened(r->context, frame, above, &number) < 0) {
		r->failed = true;
		return;
	}
	frame->tag = number;
	push(r, depth, number);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct reader *r = context;

	if (r->skips || r->failed)
		return;
	pass(r, ts);
	r->n = depth < r->n ? depth : r->n;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct reader *r = context;

	if (r->skips || r->failed)
		return;
	pass(r, ts);
	push(r, depth, frame->tag);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	const struct reader *r = context;

	if (how != IP_END_UNWOUND) /* else it was left before */
		on_left(context, frame, depth, end);
	if (r->ops->closed && !r->skips && !r->failed)
		r->ops->closed(r->context, frame, end, how);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->n = 0;
	r->skips = !r->ops->run(r->context, run);
}

int ip_open_calls_read(struct ip_trace_reader *trace, const struct ip_open_calls_ops *ops,
		       void *context, uint32_t unknown, uint64_t *ret_events)
{
	static const struct ip_frames_ops frames = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct reader r = {.ops = ops, .context = context, .unknown = unknown};
	const struct ip_trace_visitor visitor = {.ops = &frames, .context = &r, .run = on_run};
	const int ret = ip_trace_reader_visit(trace, &visitor, ret_events);

	free(r.stack);
	return r.failed ? -1 : ret;
}
