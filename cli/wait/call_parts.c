/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the parts of a call.
 */
#include "cli/wait/call_parts.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

static struct cli_call_part *find_part(struct cli_wait_call *c, const struct cli_call_part *like)
{
	for (size_t i = 0; i < c->nparts; i++) {
		struct cli_call_part *p = &c->parts[i];

		if (p->thread == like->thread && p->state == like->state && p->own == like->own &&
		    (p->own || p->because == like->because) &&
		    (p->state != IP_THREAD_BLOCKED ||
		     ip_wait_object_same(&p->object, &like->object)))
			return p;
	}
	if (ip_array_grow(&c->parts, c->nparts, sizeof(*like)) < 0)
		return NULL;
	c->parts[c->nparts] = *like;
	return &c->parts[c->nparts++];
}

static int add_time(struct cli_call_trace *x, struct cli_wait_call *c,
		    const struct ip_path_step *step, uint32_t wait, bool own, size_t because,
		    size_t *ret)
{
	struct cli_call_part like = {.thread = step->thread,
				     .state = step->state,
				     .own = own,
				     .because = because,
				     .function = IP_NO_FUNCTION_AT,
				     .holder_function = IP_NO_FUNCTION_AT};
	struct cli_call_part *p;

	if (step->state == IP_THREAD_BLOCKED)
		ip_wait_object_of_thread(&step->thread->waits[wait], &x->trace.descriptors,
					 &x->trace.owners, step->thread->tid, step->from,
					 &like.object);
	p = find_part(c, &like);
	if (!p)
		return -1;
	p->ticks += step->to - step->from;
	p->count++;
	if (step->to - step->from > p->longest) {
		const struct ip_thread_wait *waits = step->thread ? step->thread->waits : NULL;
		const struct ip_thread_waking *waking =
			step->state == IP_THREAD_BLOCKED ? &waits[waits[wait].last].waking : NULL;

		p->longest = step->to - step->from;
		p->at = step->from;
		p->is_lock = waking && ip_wait_is_lock(&waits[wait].call);
		p->holder = waking && !waking->context && waking->waker
				    ? ip_states_find(x->trace.states, waking->waker, waking->tsc)
				    : NULL;
	}
	if (ret)
		*ret = p - c->parts;
	return 0;
}

/* The spans of the call's own thread. */
static int add_own(struct cli_call_trace *x, struct cli_wait_call *c, uint64_t from, uint64_t to)
{
	const struct ip_thread_states *t = c->thread;
	const uint64_t known = x->trace.states->end < to ? x->trace.states->end : to;
	struct ip_path_step step = {.thread = t, .from = from, .to = to};
	size_t i = t ? ip_states_span_at(t, from) : 0, k = 0;

	if (!t)
		return add_time(x, c, &step, 0, true, 0, NULL);
	if (i == t->nspans) {
		step.to = t->nspans && t->spans[0].from < known ? t->spans[0].from : to;
		if (add_time(x, c, &step, 0, true, 0, NULL) < 0)
			return -1;
		step.from = step.to;
		i = 0;
	}
	for (; i < t->nspans && step.from < known; i++) {
		const struct ip_thread_span *s = &t->spans[i];
		size_t part;

		step.to = i + 1 < t->nspans && t->spans[i + 1].from < known ? t->spans[i + 1].from
									    : known;
		step.state = s->state == IP_THREAD_GONE ? IP_THREAD_UNKNOWN : s->state;
		if (add_time(x, c, &step, s->wait, true, 0, &part) < 0)
			return -1;
		/* what others did while the thread was blocked */
		for (; k < c->nsteps && c->steps[k].to <= step.to; k++)
			if (step.state == IP_THREAD_BLOCKED && c->steps[k].depth &&
			    c->steps[k].from >= step.from &&
			    add_time(x, c, &c->steps[k], c->steps[k].wait, false, part, NULL) < 0)
				return -1;
		step.from = step.to;
	}
	step.to = to;
	step.state = IP_THREAD_UNKNOWN;
	return step.from < to ? add_time(x, c, &step, 0, true, 0, NULL) : 0;
}

/* Where the threads of the parts were. */
static int add_functions(struct cli_call_trace *x, struct cli_wait_call *c)
{
	for (size_t i = 0; i < c->nparts; i++) {
		struct cli_call_part *p = &c->parts[i];

		if (p->thread && !p->own &&
		    ip_function_index_find(x->functions, p->thread->tid, p->at, &p->function) < 0)
			return -1;
		if (p->own && p->holder &&
		    ip_function_index_find(x->functions, p->holder->tid, p->at,
					   &p->holder_function) < 0)
			return -1;
	}
	return 0;
}

/* The thread of a call by the machine's id. */
static uint32_t machine_tid(const struct ip_trace_reader *t, const struct ip_slow_call *call)
{
	for (size_t i = 0; i < t->nruns; i++)
		if (t->runs[i].tid == call->tid && t->runs[i].member == call->member &&
		    call->start >= t->runs[i].begin && call->start <= t->runs[i].end)
			return t->runs[i].machine_tid;
	return 0;
}

int cli_call_parts_find(struct cli_call_trace *x, const struct ip_slow_call *slow,
			struct cli_wait_call *ret)
{
	const uint64_t from = slow->start, to = slow->start + slow->ticks;

	*ret = (struct cli_wait_call){.call = slow};
	ret->tid = machine_tid(x->trace.trace, slow);
	ret->thread = ip_states_find(x->trace.states, ret->tid, from);
	if (ret->thread && ip_critical_path_find(x->trace.states, ret->thread, from, to,
						 &ret->steps, &ret->nsteps) < 0)
		return -1;
	if (ret->thread)
		ip_wait_chain_find(x->trace.states, &x->trace.descriptors, &x->trace.owners,
				   ret->thread, from, to, &ret->chain);
	return add_own(x, ret, from, to) < 0 ? -1 : add_functions(x, ret);
}

void cli_call_parts_clear(struct cli_wait_call *c)
{
	free(c->parts);
	free(c->steps);
}

static int by_ticks(const void *left, const void *right)
{
	const struct cli_call_part *a = *(struct cli_call_part *const *)left,
				   *b = *(struct cli_call_part *const *)right;

	return a->ticks != b->ticks ? (a->ticks > b->ticks ? -1 : 1) : a < b ? -1 : 1;
}

struct cli_call_part **cli_call_parts_sort(const struct cli_wait_call *c)
{
	struct cli_call_part **sorted = calloc(c->nparts + 1, sizeof(*sorted));

	for (size_t i = 0; sorted && i < c->nparts; i++)
		sorted[i] = &c->parts[i];
	if (sorted && c->nparts)
		qsort(sorted, c->nparts, sizeof(*sorted), by_ticks);
	if (!sorted)
		ip_error("out of memory");
	return sorted;
}
