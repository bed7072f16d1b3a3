/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives idle waits to the call paths that they were in.
 */
#include "analysis/wait/idle/idle_tree.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/wait/idle/idle_waits.h"
#include "analysis/wait/trace_waits.h"
#include "common/error.h"

/* An open call; node 0: it is in none of the tree's. */
struct open {
	uint64_t start;
	uint32_t node;
	bool inner; /* the function is open below it, too */
	bool again; /* and so is the node, since the tree is folded */
};

struct filler {
	struct ip_calltree *tree;
	const struct ip_idle_waits *idle;
	const struct ip_trace_reader *trace;
	const struct ip_idle_wait *next, *end; /* of the run: those that are not over */
	struct open *stack;
	size_t n, room;
	uint32_t base; /* where call paths of the run begin */
	bool skips, failed;
};

static uint64_t part(const struct ip_idle_wait *wait, uint64_t start, uint64_t end)
{
	const uint64_t from = wait->from > start ? wait->from : start,
		       to = wait->to < end ? wait->to : end;

	return to > from ? to - from : 0;
}

/* A wait was in all open calls. */
static void give(struct filler *f, const struct ip_idle_wait *wait, uint64_t end)
{
	struct ip_call_node *nodes = f->tree->nodes;
	bool first = true;

	for (size_t i = 0; i < f->n; i++) {
		const struct open *o = &f->stack[i];
		const uint64_t ticks = part(wait, o->start, end);

		if (!o->node || !ticks)
			continue;
		if (first) {
			f->tree->idle += ticks;
			nodes[f->base].idle += f->base ? ticks : 0;
			nodes[f->base].idle_outer += f->base ? ticks : 0;
		}
		first = false;
		nodes[o->node].idle += o->again ? 0 : ticks;
		nodes[o->node].idle_outer += o->inner ? 0 : ticks;
		if (i + 1 == f->n)
			nodes[o->node].idle_self += ticks;
	}
}

/* last: also of waits that are not over at ts. */
static void pass(struct filler *f, uint64_t ts, bool last)
{
	while (f->next != f->end && (last ? f->next->from < ts : f->next->to <= ts))
		give(f, f->next++, ts);
}

/* again: whether it is the node of a call that is open already. */
static uint32_t node_of(struct filler *f, uint32_t above, uint32_t function, bool inner,
			bool *again)
{
	const struct ip_calltree_options *options = &f->tree->options;
	uint32_t node;

	*again = false;
	if (!above && options->roots && !options->roots[function])
		return 0;
	for (node = options->fold && inner ? above : 0;
	     node && f->tree->nodes[node].function != function;)
		node = f->tree->nodes[node].parent;
	*again = node;
	if (node)
		return node;
	node = ip_calltree_child(f->tree, above ? above : f->base, function);
	f->failed |= node == IP_NO_NODE;
	return node == IP_NO_NODE ? 0 : node;
}

static void push(struct filler *f, size_t depth, const struct ip_frame *frame)
{
	const bool inner = frame->flags & IP_FRAME_INNER;
	struct open *o;

	if (depth >= f->room) {
		const size_t room = depth < 128 ? 256 : 2 * depth;
		struct open *stack = reallocarray(f->stack, room, sizeof(*stack));

		if (!stack) {
			f->failed = true;
			ip_error("out of memory");
			return;
		}
		memset(stack + f->room, 0, (room - f->room) * sizeof(*stack));
		f->stack = stack;
		f->room = room;
	}
	o = &f->stack[depth];
	*o = (struct open){.start = frame->start, .inner = inner};
	o->node = node_of(f, depth ? o[-1].node : 0, frame->function, inner, &o->again);
	f->n = depth + 1;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct filler *f = context;

	if (f->skips || f->failed)
		return;
	pass(f, frame->start, false);
	push(f, depth, frame);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct filler *f = context;

	if (f->skips || f->failed)
		return;
	pass(f, ts, false);
	f->n = depth < f->n ? depth : f->n;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct filler *f = context;

	if (f->skips || f->failed)
		return;
	pass(f, ts, false);
	push(f, depth, frame);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct filler *f = context;

	if (f->skips || f->failed || how == IP_END_UNWOUND) /* UNWOUND: it was left before */
		return;
	pass(f, end, how == IP_END_UNFINISHED);
	f->n = depth < f->n ? depth : f->n;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct filler *f = context;
	const struct ip_calltree_options *options = &f->tree->options;
	const size_t number = run - f->trace->runs;
	size_t n;

	f->n = 0;
	f->next = ip_idle_waits_of(f->idle, number, &n);
	f->end = f->next + n;
	f->base = 0;
	f->skips = !n || (options->tid && options->tid != run->tid);
	if (f->skips || !options->threads)
		return;
	f->base = ip_calltree_child(f->tree, 0,
				    options->threads->first + options->threads->of_run[number]);
	f->failed |= f->base == IP_NO_NODE;
}

/* Makes the times of the tree consistent whatever the events say. */
static void limit(struct ip_calltree *tree)
{
	tree->idle = tree->idle < tree->ticks ? tree->idle : tree->ticks;
	for (size_t i = 0; i < tree->n; i++) {
		struct ip_call_node *node = &tree->nodes[i];

		node->idle = node->idle < node->total ? node->idle : node->total;
		node->idle_self = node->idle_self < node->self ? node->idle_self : node->self;
		node->idle_outer = node->idle_outer < node->outer ? node->idle_outer : node->outer;
	}
}

int ip_idle_tree_fill_from(struct ip_calltree *tree, struct ip_trace_reader *trace,
			   const struct ip_idle_waits *idle)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct filler f = {.tree = tree, .trace = trace, .idle = idle};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &f, .run = on_run};
	uint64_t events;
	int ret = idle->n ? ip_trace_reader_visit(trace, &visitor, &events) : 0;

	free(f.stack);
	limit(tree);
	return f.failed ? -1 : ret;
}

int ip_idle_tree_fill(struct ip_calltree *tree, struct ip_trace_reader *trace, bool *ret_known)
{
	struct ip_trace_waits *waits = NULL;
	struct ip_idle_waits idle;
	int got = ip_trace_waits_read(trace, false, &waits);

	*ret_known = got > 0;
	if (got <= 0)
		return got;
	got = ip_idle_waits_find(trace, waits->states, &waits->descriptors, &idle);
	if (got == 0)
		got = ip_idle_tree_fill_from(tree, trace, &idle);
	ip_idle_waits_clear(&idle);
	ip_trace_waits_destroy(waits);
	return got;
}
