/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each waiter has candidates: what its thread has handed over, and what came of that, as far as it
 * was served while the waiter went on. The events of the thread tell which time was the wait for
 * each of them.
 */
#include "analysis/darc/handover_waits.h"

#include <stdlib.h>

#include "analysis/callstack/open_calls.h"
#include "analysis/darc/handover_path.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

/* A time that ends with the serving counts, where another one has more in common with it, up to so
 * many times as much: that one may be work that is done meanwhile. */
#define PREFERENCE 8u

struct reader {
	const struct ip_trace_reader *trace;
	const struct ip_handover_pairs *pairs;
	const struct ip_handover_waiter *waiters;
	size_t nwaiters;
	struct ip_handover_candidate *items; /* by waiter, then by when it was handed over */
	size_t n;
	size_t run;
	uint64_t last; /* the time of the thread's last event */
	/* candidates of the thread: the next one, and those that may still be waited for */
	size_t next, *active, nactive;
	bool failed;
};

/* The first waiter of a thread that goes on at a time or begins later. */
static size_t waiter_from(const struct reader *r, size_t run, uint64_t tsc)
{
	size_t low = 0, high = r->nwaiters;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_handover_waiter *w = &r->waiters[middle];

		if (w->run > run || (w->run == run && w->to >= tsc))
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* A pair is a candidate of the waiters of a thread: root was handed over by it. It may be waited
 * for by one that begins later. One that was over before it was served has not waited for it. */
static int add(struct reader *r, size_t pair, size_t root)
{
	const struct ip_handover_pair *p = &r->pairs->items[pair];
	const size_t run = r->pairs->items[root].given_run;

	for (size_t i = waiter_from(r, run, p->start);
	     i < r->nwaiters && r->waiters[i].run == run && r->waiters[i].from < p->end; i++) {
		if (ip_array_grow(&r->items, r->n, sizeof(*r->items)) < 0)
			return -1;
		r->items[r->n++] =
			(struct ip_handover_candidate){.waiter = i, .pair = pair, .root = root};
	}
	return 0;
}

/* Goes from a pair to what was served when it was handed over, and so on: each of these threads may
 * wait for it. */
static int add_all(struct reader *r, size_t pair)
{
	size_t runs[IP_HANDOVER_HOPS_MOST + 1] = {r->pairs->items[pair].run}, n = 1;

	for (size_t at = pair; at != IP_HANDOVER_NONE && n <= IP_HANDOVER_HOPS_MOST;
	     at = r->pairs->items[at].source) {
		const size_t run = r->pairs->items[at].given_run;
		size_t i = 0;

		while (i < n && runs[i] != run)
			i++;
		if (i == n && add(r, pair, at) < 0)
			return -1;
		runs[n++] = run;
	}
	return 0;
}

static int by_giving(const void *left, const void *right, void *context)
{
	const struct ip_handover_candidate *a = left, *b = right;
	const struct ip_handover_pairs *pairs = context;
	const uint64_t x = pairs->items[a->pair].given, y = pairs->items[b->pair].given;

	if (a->waiter != b->waiter)
		return a->waiter < b->waiter ? -1 : 1;
	if (x != y)
		return x < y ? -1 : 1;
	return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* What a candidate's serving, a time, and, if that is wanted, the waiter have in common. */
static uint64_t common_of(const struct reader *r, const struct ip_handover_candidate *c,
			  const struct ip_handover_span *t, bool waiter)
{
	const struct ip_handover_pair *p = &r->pairs->items[c->pair];
	const struct ip_handover_waiter *w = &r->waiters[c->waiter];
	uint64_t begin = t->from > p->given ? t->from : p->given,
		 end = t->to < p->end ? t->to : p->end;

	if (waiter && begin < w->from)
		begin = w->from;
	if (waiter && end > w->to)
		end = w->to;
	return end > begin ? end - begin : 0;
}

static bool ends_with_it(const struct reader *r, const struct ip_handover_candidate *c,
			 const struct ip_handover_span *t)
{
	return ip_handover_ends_with(r->trace->session, &r->pairs->items[c->pair], t);
}

/* The thread has an event: the time since its last one may be a wait. */
static void on_pass(void *context, const uint32_t *innermost, uint64_t ts)
{
	struct reader *r = context;
	const struct ip_handover_span now = {
		.from = r->last, .to = ts, .in = innermost ? *innermost : 0};
	size_t left = 0;

	for (; r->next < r->n; r->next++) {
		const struct ip_handover_candidate *c = &r->items[r->next];
		const struct ip_handover_waiter *w = &r->waiters[c->waiter];

		if (w->run != r->run || w->from >= ts || r->pairs->items[c->pair].given >= ts)
			break;
		r->active[r->nactive++] = r->next;
	}
	for (size_t i = 0; i < r->nactive; i++) {
		struct ip_handover_candidate *c = &r->items[r->active[i]];
		const uint64_t common = common_of(r, c, &now, true);

		if (common > common_of(r, c, &c->most, true))
			c->most = now;
		if (common > common_of(r, c, &c->fit, true) && ends_with_it(r, c, &now))
			c->fit = now;
		if (r->pairs->items[c->pair].end > ts && r->waiters[c->waiter].to > ts)
			r->active[left++] = r->active[i];
	}
	r->nactive = left;
	r->last = ts > r->last ? ts : r->last;
}

/* Threads that hand nothing over are skipped. */
static bool on_run(void *context, const struct ip_thread_packets *run)
{
	struct reader *r = context;

	r->run = run - r->trace->runs;
	r->last = run->begin;
	r->nactive = 0;
	while (r->next < r->n && r->waiters[r->items[r->next].waiter].run < r->run)
		r->next++;
	return r->next < r->n && r->waiters[r->items[r->next].waiter].run == r->run;
}

/* The number of a call is its function. */
static int on_opened(void *context, const struct ip_frame *frame, const uint32_t *above,
		     uint32_t *ret)
{
	(void)context;
	(void)above;
	*ret = frame->function;
	return 0;
}

/* Whether the thread was blocked for a while of the time that the wait and the serving have in
 * common. -1: not known. */
static int was_blocked(const struct reader *r, const struct ip_trace_waits *waits,
		       const struct ip_handover_candidate *c, const struct ip_handover_span *time)
{
	const struct ip_handover_pair *p = &r->pairs->items[c->pair];
	const uint64_t from = time->from > p->given ? time->from : p->given,
		       to = time->to < p->end ? time->to : p->end;
	const size_t run = r->waiters[c->waiter].run;
	const struct ip_thread_states *t =
		waits ? ip_states_find(waits->states, r->trace->runs[run].machine_tid, from) : NULL;
	size_t i = t ? ip_states_span_at(t, from) : 0;

	if (!t || from < waits->states->begin || to > waits->states->end)
		return -1;
	for (i = i < t->nspans ? i : 0; i < t->nspans && t->spans[i].from < to; i++)
		if (t->spans[i].state == IP_THREAD_BLOCKED)
			return 1;
	return 0;
}

/* Chooses which time was the wait: most. judged: whether it was one; -1: that has to be judged by
 * other times in the same function. */
static void judge(const struct reader *r, const struct ip_trace_waits *waits,
		  struct ip_handover_candidate *c)
{
	const uint64_t most = common_of(r, c, &c->most, true), fit = common_of(r, c, &c->fit, true);

	c->judged = most ? was_blocked(r, waits, c, &c->most) : 0;
	if (fit && (c->judged < 0 ? fit >= most / PREFERENCE : !c->judged)) {
		c->most = c->fit;
		c->judged = was_blocked(r, waits, c, &c->most);
	}
}

/* By what the thread has handed over: all that came of it has one vote for a function. */
static int by_root(const void *left, const void *right)
{
	const struct ip_handover_candidate *a = left, *b = right;

	if (a->waiter != b->waiter)
		return a->waiter < b->waiter ? -1 : 1;
	if (a->root != b->root)
		return a->root < b->root ? -1 : 1;
	return a->most.in < b->most.in ? -1 : a->most.in > b->most.in;
}

/* Keeps what was waited for. */
static int choose(struct reader *r, const struct ip_trace_waits *waits)
{
	/* by function: of the times spent in it, how many more end with the serving than do not */
	_cleanup_free_ int64_t *votes =
		calloc((size_t)r->trace->session->nfunctions + 1, sizeof(*votes));
	size_t n = 0, next;

	if (!votes)
		return ip_error("out of memory");
	for (size_t i = 0; i < r->n; i++)
		judge(r, waits, &r->items[i]);
	qsort(r->items, r->n, sizeof(*r->items), by_root);
	for (size_t i = 0; i < r->n; i = next) {
		bool open = false, ends = false;

		for (next = i; next < r->n && !by_root(&r->items[i], &r->items[next]); next++) {
			open |= r->items[next].judged < 0;
			ends |= r->items[next].judged < 0 &&
				ends_with_it(r, &r->items[next], &r->items[next].most);
		}
		if (open)
			votes[r->items[i].most.in] += ends ? 1 : -1;
	}
	for (size_t i = 0; i < r->n; i++)
		if (r->items[i].judged < 0 ? votes[r->items[i].most.in] > 0 : r->items[i].judged)
			r->items[n++] = r->items[i];
	r->n = n;
	return 0;
}

static int find(struct reader *r, struct ip_trace_reader *trace, const struct ip_trace_waits *waits,
		struct ip_handover **ret, size_t *ret_n)
{
	static const struct ip_open_calls_ops ops = {
		.run = on_run, .pass = on_pass, .opened = on_opened};
	uint64_t events;

	for (size_t i = 0; i < r->pairs->n; i++)
		if (add_all(r, i) < 0)
			return -1;
	if (!r->n)
		return 0;
	qsort_r(r->items, r->n, sizeof(*r->items), by_giving, (void *)r->pairs);
	r->active = calloc(r->n, sizeof(*r->active));
	if (!r->active)
		return ip_error("out of memory");
	if (ip_open_calls_read(trace, &ops, r, 0, &events) < 0 || choose(r, waits) < 0)
		return -1;
	return ip_handover_path_find(trace->session, r->pairs, r->waiters, r->items, r->n, ret,
				     ret_n);
}

int ip_handover_waits_find(struct ip_trace_reader *trace, const struct ip_handover_pairs *pairs,
			   const struct ip_handover_waiter *waiters, size_t n,
			   const struct ip_trace_waits *waits, struct ip_handover **ret,
			   size_t *ret_n)
{
	struct reader r = {.trace = trace, .pairs = pairs, .waiters = waiters, .nwaiters = n};
	int code;

	*ret = NULL;
	*ret_n = 0;
	code = find(&r, trace, waits, ret, ret_n);
	free(r.items);
	free(r.active);
	return code;
}
