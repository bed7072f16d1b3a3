/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each handover has two windows of time in the thread that serves. The events of a thread are given
 * to all windows that are open then: of what waits in one thread these follow one another, so there
 * are not more of them at once than threads that wait.
 */
#include "analysis/darc/handover_calls.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

struct window {
	size_t run;
	uint64_t from, to;
	const struct ip_handover *handover;
	struct ip_handover_calls *calls;
	bool within; /* of the serving: calls that were open before that, and the call itself, are
		      * none */
};

/* A call that is open. */
struct open_call {
	uint64_t start, call_site;
	uint32_t function;
};

struct reader {
	const struct ip_trace_reader *trace;
	struct window *windows; /* by run, then by begin */
	size_t n;
	size_t *active; /* windows that are open */
	size_t nactive;
	size_t next; /* the first one that has not been open */
	size_t run;
	uint32_t member;
	struct open_call *stack;
	size_t depth, room;
	const uint64_t *payload;
	bool skips, failed; /* skips: the thread has no windows */
};

static void add(struct reader *r, struct ip_handover_calls *calls,
		const struct ip_handover_event *event)
{
	if (r->failed || ip_array_grow(&calls->events, calls->n, sizeof(*event)) < 0) {
		r->failed = true;
		return;
	}
	calls->events[calls->n++] = *event;
}

static void add_open(struct reader *r, struct ip_handover_calls *calls, size_t depth)
{
	const struct open_call *c = &r->stack[depth];

	add(r, calls,
	    &(struct ip_handover_event){.tsc = c->start,
					.function = c->function,
					.member = r->member,
					.call_site = c->call_site,
					.depth = depth});
}

/* The depth from which on calls that are open belong to a window that opens. */
static size_t first_of(const struct reader *r, const struct window *w)
{
	const struct ip_handover *h = w->handover;
	size_t i = r->depth;

	if (!w->within)
		return 0;
	if (w->from == h->start)
		return r->depth;
	for (; i && r->stack[i - 1].start >= h->start; i--)
		if (r->stack[i - 1].start == h->start && r->stack[i - 1].function == h->server)
			break;
	return i;
}

/* The thread has an event, which is not handled yet: windows open and close. */
static void pass(struct reader *r, uint64_t ts)
{
	size_t left = 0;

	for (;
	     r->next < r->n && r->windows[r->next].run == r->run && r->windows[r->next].from <= ts;
	     r->next++) {
		const struct window *w = &r->windows[r->next];

		for (size_t i = first_of(r, w); i < r->depth; i++)
			if (r->stack[i].start < w->to)
				add_open(r, w->calls, i);
		r->active[r->nactive++] = r->next;
	}
	for (size_t i = 0; i < r->nactive; i++)
		if (r->windows[r->active[i]].to >= ts)
			r->active[left++] = r->active[i];
	r->nactive = left;
}

static void end_run(struct reader *r)
{
	pass(r, UINT64_MAX);
	r->nactive = 0;
	r->depth = 0;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	end_run(r);
	r->run = run - r->trace->runs;
	r->member = run->member;
	while (r->next < r->n && r->windows[r->next].run < r->run)
		r->next++;
	r->skips = r->next == r->n || r->windows[r->next].run != r->run;
}

static void on_values(void *context, const uint64_t *payload)
{
	((struct reader *)context)->payload = payload;
}

static int push(struct reader *r, size_t depth, const struct open_call *call)
{
	if (depth == r->room) {
		const size_t room = r->room ? 2 * r->room : 64;
		struct open_call *stack = reallocarray(r->stack, room, sizeof(*stack));

		if (!stack)
			return ip_error("out of memory");
		r->stack = stack;
		r->room = room;
	}
	r->stack[depth] = *call;
	r->depth = depth + 1;
	return 0;
}

/* A call begins, or goes on, at a time. */
static void enter(struct reader *r, size_t depth, const struct open_call *call)
{
	if (r->skips)
		return;
	pass(r, call->start);
	if (r->failed || depth > r->depth)
		return;
	r->failed = push(r, depth, call) < 0;
	for (size_t i = 0; !r->failed && i < r->nactive; i++) {
		const struct window *w = &r->windows[r->active[i]];

		if (call->start < w->to && !(w->within && call->start == w->handover->start &&
					     call->function == w->handover->server))
			add_open(r, w->calls, depth);
	}
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct reader *r = context;
	const bool joined = frame->flags & IP_FRAME_JOINED;

	enter(r, depth,
	      &(struct open_call){.start = frame->start,
				  .call_site = joined ? 0 : ip_recording_call_site(r->payload),
				  .function = frame->function});
}

/* A coroutine goes on: what it has done before is told by then. */
static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	enter(context, depth, &(struct open_call){.start = ts, .function = frame->function});
}

static void leave(struct reader *r, size_t depth, uint64_t ts)
{
	if (r->skips)
		return;
	pass(r, ts);
	for (size_t i = 0; i < r->nactive; i++)
		add(r, r->windows[r->active[i]].calls,
		    &(struct ip_handover_event){.tsc = ts, .depth = depth, .ends = true});
	r->depth = depth < r->depth ? depth : r->depth;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	(void)frame;
	leave(context, depth, ts);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	(void)frame;
	if (how != IP_END_UNWOUND) /* else it was left before */
		leave(context, depth, end);
}

static int by_begin(const void *left, const void *right)
{
	const struct window *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static void add_window(struct reader *r, struct ip_handover *h, bool within)
{
	const struct window w = {.run = h->server_run,
				 .from = within ? ip_handover_served_from(h) : ip_handover_from(h),
				 .to = within		     ? h->until
				       : h->start < h->until ? h->start
							     : h->until,
				 .handover = h,
				 .calls = within ? &h->within : &h->meanwhile,
				 .within = within};

	if (w.from < w.to)
		r->windows[r->n++] = w;
}

static void add_windows(struct reader *r, struct ip_handover *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		add_window(r, &items[i], false);
		add_window(r, &items[i], true);
	}
}

int ip_handover_calls_read(struct ip_trace_reader *trace, struct ip_handovers *handovers)
{
	static const struct ip_frames_ops ops = {.opened = on_opened,
						 .left = on_left,
						 .resumed = on_resumed,
						 .closed = on_closed,
						 .values = on_values};
	struct reader r = {.trace = trace, .run = SIZE_MAX};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &r, .run = on_run};
	const size_t room = 2 * (handovers->n + handovers->nin_turn) + 1;
	uint64_t events;
	int ret = -1;

	r.windows = calloc(room, sizeof(*r.windows));
	r.active = calloc(room, sizeof(*r.active));
	if (!r.windows || !r.active) {
		ip_error("out of memory");
	} else {
		add_windows(&r, handovers->items, handovers->n);
		add_windows(&r, handovers->in_turn, handovers->nin_turn);
		qsort(r.windows, r.n, sizeof(*r.windows), by_begin);
		ret = ip_trace_reader_visit(trace, &visitor, &events);
		end_run(&r);
	}
	free(r.windows);
	free(r.active);
	free(r.stack);
	return r.failed ? -1 : ret;
}
