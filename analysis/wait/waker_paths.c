/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the calls of threads up to the times at which they woke others.
 */
#include "analysis/wait/waker_paths.h"

#include <stdbool.h>
#include <stdlib.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/wait/sort.h"
#include "analysis/wait/wait_object.h"
#include "common/error.h"

struct walk {
	struct ip_waker_paths *paths;
	size_t at; /* the next waking of the thread */
	int32_t tid;
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
static void pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct walk *w = context;
	struct ip_waking_path *items = w->paths->items;

	for (; w->at < w->paths->n && items[w->at].waker == w->tid && items[w->at].tsc <= ts;
	     w->at++)
		items[w->at].node = innermost ? *innermost : 0;
}

/* A recursion is one node: so a path is no longer than there are functions. */
static uint32_t node_of(struct ip_calltree *tree, uint32_t above, const struct ip_frame *frame)
{
	uint32_t node = frame->flags & IP_FRAME_INNER ? above : 0;

	while (node && tree->nodes[node].function != frame->function)
		node = tree->nodes[node].parent;
	return node ? node : ip_calltree_child(tree, above, frame->function);
}

static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	struct walk *w = context;

	*ret = node_of(w->paths->tree, above ? *above : 0, frame);
	return *ret == IP_NO_NODE ? -1 : 0;
}

static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct walk *w = context;

	w->tid = (int32_t)run->machine_tid;
	w->at = place_of(w->paths, w->tid, run->begin);
	return true;
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
			if (ip_wait_is_lock(&wait->call) && wait->call.begin)
				paths->items[paths->n++] = (struct ip_waking_path){
					.waker = waking->waker, .tsc = wait->call.begin};
			paths->items[paths->n++] =
				(struct ip_waking_path){.waker = waking->waker, .tsc = waking->tsc};
		}
	ip_sort(paths->items, paths->n, sizeof(*paths->items), by_waker);
	return 0;
}

struct ip_waker_paths *ip_waker_paths_read(struct ip_trace_reader *trace,
					   const struct ip_states *states)
{
	static const struct ip_open_calls_ops ops = {on_run, pass, on_opened, NULL};
	struct walk w = {.paths = calloc(1, sizeof(*w.paths))};
	uint64_t events;
	int ret;

	if (!w.paths) {
		ip_error("out of memory");
		return NULL;
	}
	w.paths->tree = ip_calltree_create();
	ret = w.paths->tree ? list_wakings(states, w.paths) : -1;
	if (ret == 0)
		ret = ip_open_calls_read(trace, &ops, &w, 0, &events);
	if (ret == 0)
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
