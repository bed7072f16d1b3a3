/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the critical path.
 */
#include "analysis/wait/critical_path.h"

#include <stdlib.h>

#include "common/array.h"

struct walker {
	const struct ip_states *states;
	struct ip_path_step *steps;
	size_t n;
};

static int put(struct walker *w, const struct ip_path_step *step)
{
	if (step->from >= step->to)
		return 0;
	if (ip_array_grow(&w->steps, w->n, sizeof(*step)) < 0)
		return -1;
	w->steps[w->n++] = *step;
	return 0;
}

static int walk(struct walker *w, const struct ip_thread_states *t, uint64_t from, uint64_t to,
		uint32_t depth);

/* A part of a span in which the thread was blocked. */
static int walk_wait(struct walker *w, const struct ip_path_step *blocked)
{
	const struct ip_thread_states *t = blocked->thread, *waker = NULL;
	const uint32_t last = t->waits[blocked->wait].last;
	const struct ip_thread_waking *waking = &t->waits[last].waking;
	struct ip_path_step rest = *blocked;

	if (waking->tsc && !waking->context && waking->waker && blocked->depth < IP_PATH_DEPTH_MAX)
		waker = ip_states_find(w->states, waking->waker, waking->tsc);
	if (last != blocked->wait) /* its own waking was false */
		return waker && waker != t
			       ? walk(w, waker, blocked->from, blocked->to, blocked->depth + 1)
			       : put(w, blocked);
	/* a waking that came before the thread was blocked: it was on its way (thread_states.c) */
	if (!waking->tsc || waking->tsc > blocked->to)
		return put(w, blocked);
	if (waking->tsc <= blocked->from)
		return put(w, blocked);
	rest.to = waking->tsc;
	if ((waker && waker != t ? walk(w, waker, rest.from, rest.to, blocked->depth + 1)
				 : put(w, &rest)) < 0)
		return -1;
	rest.from = waking->tsc;
	rest.to = blocked->to;
	rest.state = IP_THREAD_RUNNABLE;
	rest.other = 0;
	return put(w, &rest);
}

/* The time before a thread's first span, up to step->to. */
static int walk_before(struct walker *w, const struct ip_path_step *step)
{
	const struct ip_thread_states *t = step->thread, *parent = NULL;
	struct ip_path_step rest = *step;

	if (t->begin && t->parent && step->depth < IP_PATH_DEPTH_MAX)
		parent = ip_states_find(w->states, t->parent, t->begin);
	if (!parent || parent == t || t->begin <= step->from)
		return put(w, step);
	rest.to = t->begin < step->to ? t->begin : step->to;
	if (walk(w, parent, rest.from, rest.to, step->depth + 1) < 0)
		return -1;
	/* it is being made: it will be ready for a CPU in a moment */
	rest.from = rest.to;
	rest.to = step->to;
	return put(w, &rest);
}

/* What a thread did from one time to another. */
static int walk(struct walker *w, const struct ip_thread_states *t, uint64_t from, uint64_t to,
		uint32_t depth)
{
	/* behind that nothing is known */
	const uint64_t known = w->states->end < to ? w->states->end : to;
	struct ip_path_step step = {.thread = t, .depth = depth, .from = from};
	size_t i = ip_states_span_at(t, from);

	if (i == t->nspans) { /* before its first span */
		step.to = t->nspans && t->spans[0].from < known ? t->spans[0].from : to;
		step.state = IP_THREAD_UNKNOWN;
		if (walk_before(w, &step) < 0)
			return -1;
		step.from = step.to;
		i = 0;
	}
	for (; i < t->nspans && step.from < known; i++) {
		const struct ip_thread_span *span = &t->spans[i];

		step.to = i + 1 < t->nspans && t->spans[i + 1].from < known ? t->spans[i + 1].from
									    : known;
		step.state = span->state == IP_THREAD_GONE ? IP_THREAD_UNKNOWN : span->state;
		step.wait = span->state == IP_THREAD_BLOCKED ? span->wait : 0;
		step.other = span->state == IP_THREAD_RUNNABLE ? span->other : 0;
		if ((step.state == IP_THREAD_BLOCKED ? walk_wait(w, &step) : put(w, &step)) < 0)
			return -1;
		step.from = step.to;
	}
	step.to = to;
	step.state = IP_THREAD_UNKNOWN;
	return put(w, &step);
}

static int by_time(const void *left, const void *right)
{
	const struct ip_path_step *a = left, *b = right;

	return a->from < b->from ? -1 : a->from > b->from;
}

int ip_critical_path_find(const struct ip_states *states, const struct ip_thread_states *thread,
			  uint64_t from, uint64_t to, struct ip_path_step **ret, size_t *ret_n)
{
	struct walker w = {.states = states};

	if (walk(&w, thread, from, to, 0) < 0) {
		free(w.steps);
		return -1;
	}
	if (w.n)
		qsort(w.steps, w.n, sizeof(*w.steps), by_time);
	*ret = w.steps;
	*ret_n = w.n;
	return 0;
}
