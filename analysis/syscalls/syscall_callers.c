/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays the system calls of threads over the calls of their functions.
 */
#include "analysis/syscalls/syscall_callers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"

struct finder {
	const struct ip_syscall_call *calls;
	uint32_t *functions; /* by call */
	size_t *order;	     /* calls by thread, then by begin */
	size_t n;
	size_t at, end;	 /* in order: the thread's calls that have no function yet */
	uint32_t *stack; /* functions of the open calls, by depth */
	size_t depth, room;
	bool failed;
};

/* For qsort(), which passes no context. */
static const struct ip_syscall_call *sorted;

static int compare(const void *left, const void *right)
{
	const struct ip_syscall_call *a = &sorted[*(const size_t *)left],
				     *b = &sorted[*(const size_t *)right];

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->begin < b->begin ? -1 : a->begin > b->begin;
}

/* The first place in order that is not before a thread's time. */
static size_t place_of(const struct finder *f, int32_t tid, uint64_t tsc)
{
	size_t low = 0, high = f->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		const struct ip_syscall_call *call = &f->calls[f->order[middle]];

		if (call->tid < tid || (call->tid == tid && call->begin < tsc))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What began before ts was made by the innermost open call. */
static void pass(struct finder *f, uint64_t ts)
{
	for (; f->at < f->end && f->calls[f->order[f->at]].begin < ts; f->at++)
		if (f->depth && f->calls[f->order[f->at]].timed)
			f->functions[f->order[f->at]] = f->stack[f->depth - 1];
}

static void push(struct finder *f, size_t depth, uint32_t function)
{
	if (depth >= f->room) {
		size_t room = f->room ? 2 * f->room : 256;
		uint32_t *stack;

		while (room <= depth)
			room *= 2;
		stack = reallocarray(f->stack, room, sizeof(*stack));
		if (!stack) {
			f->failed = true;
			return;
		}
		f->stack = stack;
		f->room = room;
	}
	for (; f->depth < depth; f->depth++)
		f->stack[f->depth] = IP_NO_FUNCTION_AT;
	f->stack[depth] = function;
	f->depth = depth + 1;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct finder *f = context;

	pass(f, frame->start);
	push(f, depth, frame->function);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct finder *f = context;

	pass(f, ts);
	f->depth = depth < f->depth ? depth : f->depth;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct finder *f = context;

	pass(f, ts);
	push(f, depth, frame->function);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct finder *f = context;

	if (how == IP_END_UNWOUND) /* it was left before */
		return;
	pass(f, end);
	f->depth = depth < f->depth ? depth : f->depth;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct finder *f = context;

	f->depth = 0;
	f->at = place_of(f, run->tid, run->begin);
	f->end = place_of(f, run->tid, UINT64_MAX);
}

int ip_syscall_callers_find(struct ip_trace_reader *trace, const struct ip_syscall_call *calls,
			    size_t n, uint32_t *ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct finder f = {.calls = calls, .functions = ret, .n = n};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &f, .run = on_run};
	uint64_t events;
	int done;

	if (!n)
		return 0;
	f.order = malloc(n * sizeof(*f.order));
	if (!f.order)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		f.order[i] = i;
		ret[i] = IP_NO_FUNCTION_AT;
	}
	sorted = calls;
	qsort(f.order, n, sizeof(*f.order), compare);
	done = ip_trace_reader_visit(trace, &visitor, &events);
	if (f.failed)
		done = ip_error("out of memory");
	free(f.order);
	free(f.stack);
	return done < 0 ? -1 : 0;
}
