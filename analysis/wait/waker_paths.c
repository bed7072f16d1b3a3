/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the calls of threads up to the times at which they woke others.
 */
#include "analysis/wait/waker_paths.h"

#include <stdbool.h>
#include <stdlib.h>

#include "analysis/wait/wait_object.h"
#include "common/error.h"

struct walk {
	struct ip_waker_paths *paths;
	uint32_t *stack; /* the open calls of the thread, by depth: their nodes */
	size_t n, room;
	size_t at; /* the next waking of the thread */
	int32_t tid;
	bool failed;
};

static int by_waker(const void *left, const void *right)
{
	const struct ip_waking_path *a = left, *b = right;

	if (a->waker != b->waker)
		return a->waker < b->waker ? -1 : 1;
	return a->tsc < b->tsc ? -1 : a->tsc > b->tsc;
}

/* The first item that is not before a waking. */
static size_t place_of(const struct ip_waker_paths *paths, int32_t waker, uint64_t tsc)
{
	const struct ip_waking_path wanted = {.waker = waker, .tsc = tsc};
	size_t low = 0, high = paths->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (by_waker(&paths->items[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* What wakes up to ts happened in the innermost call that is open. */
static void pass(struct walk *w, uint64_t ts)
{
	struct ip_waking_path *items = w->paths->items;

	for (; w->at < w->paths->n && items[w->at].waker == w->tid && items[w->at].tsc <= ts;
	     w->at++)
		items[w->at].node = w->n ? w->stack[w->n - 1] : 0;
}

static void push(struct walk *w, size_t depth, uint32_t node)
{
	if (depth >= w->room) {
		size_t room = w->room ? w->room : 128;
		uint32_t *stack;

		while (room <= depth)
			room *= 2;
		stack = reallocarray(w->stack, room, sizeof(*stack));
		if (!stack) {
			w->failed = true;
			ip_error("out of memory");
			return;
		}
		w->stack = stack;
		w->room = room;
	}
	w->stack[depth] = node;
	w->n = depth + 1;
}

/* A recursion is one node: so a path is no longer than there are functions. */
static uint32_t node_of(struct ip_calltree *tree, uint32_t above, const struct ip_frame *frame)
{
	uint32_t node = frame->flags & IP_FRAME_INNER ? above : 0;

	while (node && tree->nodes[node].function != frame->function)
		node = tree->nodes[node].parent;
	return node ? node : ip_calltree_child(tree, above, frame->function);
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct walk *w = context;
	const uint32_t above = depth && depth <= w->n ? w->stack[depth - 1] : 0;
	uint32_t node;

	if (w->failed)
		return;
	pass(w, frame->start);
	node = node_of(w->paths->tree, above, frame);
	if (node == IP_NO_NODE) {
		w->failed = true;
		return;
	}
	frame->tag = node;
	push(w, depth, node);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct walk *w = context;

	pass(w, ts);
	w->n = depth < w->n ? depth : w->n;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct walk *w = context;

	pass(w, ts);
	push(w, depth, frame->tag);
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	if (how != IP_END_UNWOUND) /* else it was left before */
		on_left(context, frame, depth, end);
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct walk *w = context;

	w->n = 0;
	w->tid = (int32_t)run->machine_tid;
	w->at = place_of(w->paths, w->tid, run->begin);
}

static int list_wakings(const struct ip_states *states, struct ip_waker_paths *paths)
{
	size_t n = 0;

	for (size_t i = 0; i < states->n; i++)
		n += 2 * states->threads[i].nwaits;
	paths->items = calloc(n + 1, sizeof(*paths->items));
	if (!paths->items)
		return ip_error("out of memory");
	for (size_t i = 0; i < states->n; i++)
		for (size_t k = 0; k < states->threads[i].nwaits; k++) {
			const struct ip_thread_wait *wait = &states->threads[i].waits[k];
			const struct ip_thread_waking *waking = &wait->waking;

			if (!waking->tsc || waking->context || !waking->waker)
				continue;
			paths->items[paths->n++] =
				(struct ip_waking_path){.waker = waking->waker, .tsc = waking->tsc};
			if (ip_wait_is_lock(&wait->call) && wait->call.begin)
				paths->items[paths->n++] = (struct ip_waking_path){
					.waker = waking->waker, .tsc = wait->call.begin};
		}
	if (paths->n)
		qsort(paths->items, paths->n, sizeof(*paths->items), by_waker);
	return 0;
}

struct ip_waker_paths *ip_waker_paths_read(struct ip_trace_reader *trace,
					   const struct ip_states *states)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct walk w = {.paths = calloc(1, sizeof(*w.paths))};
	const struct ip_trace_visitor visitor = {.ops = &ops, .context = &w, .run = on_run};
	uint64_t events;
	int ret;

	if (!w.paths) {
		ip_error("out of memory");
		return NULL;
	}
	w.paths->tree = ip_calltree_create();
	ret = w.paths->tree ? list_wakings(states, w.paths) : -1;
	if (ret == 0)
		ret = ip_trace_reader_visit(trace, &visitor, &events);
	free(w.stack);
	if (ret == 0 && !w.failed)
		return w.paths;
	ip_waker_paths_destroy(w.paths);
	return NULL;
}

void ip_waker_paths_destroy(struct ip_waker_paths *paths)
{
	if (!paths)
		return;
	ip_calltree_destroy(paths->tree);
	free(paths->items);
	free(paths);
}

static uint32_t node_at(const struct ip_waker_paths *paths, int32_t waker, uint64_t tsc)
{
	const size_t at = place_of(paths, waker, tsc);

	return at < paths->n && paths->items[at].waker == waker && paths->items[at].tsc == tsc
		       ? paths->items[at].node
		       : 0;
}

uint32_t ip_waker_paths_node(const struct ip_waker_paths *paths,
			     const struct ip_thread_waking *waking)
{
	return node_at(paths, waking->waker, waking->tsc);
}

uint32_t ip_waker_paths_holder(const struct ip_waker_paths *paths,
			       const struct ip_thread_wait *wait)
{
	return ip_wait_is_lock(&wait->call) && wait->call.begin
		       ? node_at(paths, wait->waking.waker, wait->call.begin)
		       : node_at(paths, wait->waking.waker, wait->waking.tsc);
}
