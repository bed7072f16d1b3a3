/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers searches while the calls of each thread are read.
 */
#include "analysis/wait/function_search.h"

#include <stdlib.h>

#include "analysis/wait/function_index.h"
#include "common/error.h"

struct reader {
	struct ip_function_search *searches;
	size_t n;
	size_t next, end; /* those of the run that have no answer yet */
	/* the open calls of the thread, by depth */
	uint32_t *stack;
	size_t depth, room;
	bool failed;
};

static int compare(const void *left, const void *right)
{
	const struct ip_function_search *a = left, *b = right;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

/* The first search that is not before another one. */
static size_t find(const struct ip_function_search *searches, size_t n, uint32_t tid, uint64_t tsc)
{
	const struct ip_function_search key = {.tid = tid, .tsc = tsc};
	size_t low = 0, high = n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&searches[middle], &key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What is open now has been so up to a time. */
static void pass(struct reader *r, uint64_t tsc)
{
	for (; r->next < r->end && r->searches[r->next].tsc < tsc; r->next++)
		if (r->depth)
			r->searches[r->next].function = r->stack[r->depth - 1];
}

static void push(struct reader *r, uint32_t function, size_t depth)
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
	for (; r->depth < depth; r->depth++) /* not known */
		r->stack[r->depth] = IP_NO_FUNCTION_AT;
	r->stack[depth] = function;
	r->depth = depth + 1;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	pass(context, frame->start);
	push(context, frame->function, depth);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct reader *r = context;

	pass(r, ts);
	r->depth = depth < r->depth ? depth : r->depth;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	pass(context, ts);
	push(context, frame->function, depth);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND) /* it was left before */
		on_left(context, frame, depth, end);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->depth = 0;
	r->next = find(r->searches, r->n, run->machine_tid, run->begin);
	r->end = find(r->searches, r->n, run->machine_tid, run->end ? run->end : UINT64_MAX);
}

int ip_function_search_all(struct ip_trace_reader *trace, struct ip_function_search *searches,
			   size_t n, uint64_t *ret_events)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct reader r = {.searches = searches, .n = n};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &r, .run = on_run};
	int ret;

	for (size_t i = 0; i < n; i++)
		searches[i].function = IP_NO_FUNCTION_AT;
	if (n)
		qsort(searches, n, sizeof(*searches), compare);
	ret = ip_trace_reader_visit(trace, &visitor, ret_events);
	free(r.stack);
	return r.failed ? -1 : ret;
}

uint32_t ip_function_search_answer(const struct ip_function_search *searches, size_t n,
				   uint32_t tid, uint64_t tsc)
{
	const size_t i = find(searches, n, tid, tsc);

	return i < n && searches[i].tid == tid && searches[i].tsc == tsc ? searches[i].function
									 : IP_NO_FUNCTION_AT;
}
