/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes from what operations wait for to what the threads wait for that serve it, hop by hop.
 */
#include "analysis/darc/handovers.h"

#include <stdlib.h>

#include "analysis/darc/handover_calls.h"
#include "analysis/darc/handover_waits.h"
#include "common/array.h"
#include "common/error.h"

static int by_begin(const void *left, const void *right)
{
	const struct ip_handover_waiter *a = left, *b = right;

	if (a->run != b->run)
		return a->run < b->run ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

/* Times of a thread that overlap become one. Returns how many are left. */
static size_t merge(struct ip_handover_waiter *waiters, size_t n)
{
	size_t kept = 0;

	if (n)
		qsort(waiters, n, sizeof(*waiters), by_begin);
	for (size_t i = 0; i < n; i++) {
		struct ip_handover_waiter *last = kept ? &waiters[kept - 1] : NULL;

		if (!last || last->run != waiters[i].run || last->to < waiters[i].from)
			waiters[kept++] = waiters[i];
		else if (waiters[i].to > last->to)
			last->to = waiters[i].to;
	}
	return kept;
}

/* The times of a handover in the thread that serves: it does something else, and serves. Each is
 * empty where from is not before to. */
static void times_of(const struct ip_handover *h, struct ip_handover_waiter ret[2])
{
	const uint64_t served = ip_handover_served_from(h);

	ret[0] = (struct ip_handover_waiter){.run = h->server_run,
					     .from = ip_handover_from(h),
					     .to = served < h->until ? served : h->until};
	ret[1] = (struct ip_handover_waiter){.run = h->server_run, .from = served, .to = h->until};
}

/* Those of n handovers: *ret, which the caller frees. Returns their number. *ret NULL: there is no
 * memory. */
static size_t all_times(const struct ip_handover *h, size_t n, struct ip_handover_waiter **ret)
{
	struct ip_handover_waiter *all = calloc(2 * n + 1, sizeof(*all));
	size_t used = 0;

	*ret = all;
	for (size_t i = 0; all && i < n; i++) {
		struct ip_handover_waiter times[2];

		times_of(&h[i], times);
		for (size_t k = 0; k < 2; k++)
			if (times[k].from < times[k].to)
				all[used++] = times[k];
	}
	return all ? merge(all, used) : 0;
}

/* Adds waiters, with what they wait for. Returns 0, or -1 with an error. */
static int add_times(struct ip_handovers *ret, const struct ip_handover_waiter *waiters, size_t n,
		     const struct ip_handover *found, size_t nfound)
{
	size_t next = 0;

	for (size_t i = 0; i < n; i++) {
		struct ip_handover_time t = {.run = waiters[i].run,
					     .from = waiters[i].from,
					     .to = waiters[i].to,
					     .first = ret->nin_turn};

		for (; next < nfound && found[next].time == i; next++) {
			if (ip_array_grow(&ret->in_turn, ret->nin_turn, sizeof(*found)) < 0)
				return -1;
			ret->in_turn[ret->nin_turn] = found[next];
			ret->in_turn[ret->nin_turn++].time = ret->ntimes;
		}
		t.n = ret->nin_turn - t.first;
		if (!t.n)
			continue;
		if (ip_array_grow(&ret->times, ret->ntimes, sizeof(t)) < 0)
			return -1;
		ret->times[ret->ntimes++] = t;
	}
	return 0;
}

/* The number, plus 1, of the time from a first one on that has this one in it. */
static size_t find_time(const struct ip_handovers *all, size_t first,
			const struct ip_handover_waiter *w)
{
	size_t low = first, high = all->ntimes;

	if (w->from >= w->to)
		return 0;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_handover_time *t = &all->times[middle];

		if (t->run < w->run || (t->run == w->run && t->to < w->to))
			low = middle + 1;
		else
			high = middle;
	}
	return low < all->ntimes && all->times[low].run == w->run && all->times[low].from <= w->from
		       ? low + 1
		       : 0;
}

/* Finds what the threads wait for that serve some handovers. first, n: these, of items, or of
 * in_turn. */
static int find_hop(struct ip_trace_reader *trace, const struct ip_handover_pairs *pairs,
		    const struct ip_trace_waits *waits, bool in_turn, size_t first, size_t n,
		    struct ip_handovers *ret)
{
	const size_t first_time = ret->ntimes;
	const struct ip_handover *of = in_turn ? ret->in_turn : ret->items;
	struct ip_handover_waiter *waiters;
	struct ip_handover *found = NULL;
	size_t nfound = 0, nwaiters = all_times(of + first, n, &waiters);
	int code = waiters ? ip_handover_waits_find(trace, pairs, waiters, nwaiters, waits, &found,
						    &nfound)
			   : ip_error("out of memory");

	if (code == 0)
		code = add_times(ret, waiters, nwaiters, found, nfound);
	for (size_t i = first; code == 0 && i < first + n; i++) {
		struct ip_handover *h = in_turn ? &ret->in_turn[i] : &ret->items[i];
		struct ip_handover_waiter times[2];

		times_of(h, times);
		h->meanwhile_time = find_time(ret, first_time, &times[0]);
		h->within_time = find_time(ret, first_time, &times[1]);
	}
	free(found);
	free(waiters);
	return code;
}

static int find_all(struct ip_trace_reader *trace, const struct ip_handover_pairs *pairs,
		    const struct ip_handover_waiter *operations, size_t n,
		    const struct ip_trace_waits *waits, struct ip_handovers *ret)
{
	size_t first = 0, end;

	if (ip_handover_waits_find(trace, pairs, operations, n, waits, &ret->items, &ret->n) < 0 ||
	    find_hop(trace, pairs, waits, false, 0, ret->n, ret) < 0)
		return -1;
	for (unsigned hops = 2; hops < IP_HANDOVER_HOPS_MOST && first < ret->nin_turn; hops++) {
		end = ret->nin_turn;
		if (find_hop(trace, pairs, waits, true, first, end - first, ret) < 0)
			return -1;
		first = end;
	}
	return 0;
}

/* The first serving of each thread behind a time does not count, nor what comes before: something
 * may have been called in it, or before it, that was not live then. A thread that has begun later
 * is whole. */
static int mark_early(const struct ip_trace_reader *trace, const struct ip_handover_pairs *pairs,
		      uint64_t since, struct ip_handovers *ret)
{
	uint64_t *first = calloc(trace->nruns + 1, sizeof(*first));

	if (!first)
		return ip_error("out of memory");
	for (size_t i = 0; i < trace->nruns; i++)
		first[i] = UINT64_MAX;
	for (size_t i = 0; i < pairs->n; i++) {
		const struct ip_handover_pair *p = &pairs->items[i];

		if (p->start >= since && p->start < first[p->run])
			first[p->run] = p->start;
	}
	for (size_t i = 0; i < trace->nruns; i++) {
		if (trace->runs[i].begin > since)
			first[i] = 0;
		else if (first[i] == UINT64_MAX)
			first[i] = since;
	}
	/* the hops that come later lie behind */
	for (size_t i = ret->nin_turn + ret->n; i-- > 0;) {
		struct ip_handover *h = i < ret->n ? &ret->items[i] : &ret->in_turn[i - ret->n];

		h->early = h->start <= first[h->server_run];
		for (unsigned k = 0; k < 2; k++) {
			const size_t number = k ? h->within_time : h->meanwhile_time;
			const struct ip_handover_time *t = number ? &ret->times[number - 1] : NULL;

			for (size_t j = 0; t && !h->early && j < t->n; j++)
				h->early = ret->in_turn[t->first + j].early;
		}
	}
	free(first);
	return 0;
}

int ip_handovers_find(struct ip_trace_reader *trace, struct ip_handover_rule *rules, size_t nrules,
		      const struct ip_darc_operations *const *operations, size_t noperations,
		      const struct ip_trace_waits *waits, uint64_t since, struct ip_handovers *ret)
{
	struct ip_handover_pairs pairs = {0};
	struct ip_handover_waiter *all;
	size_t n = 0, room = 1;
	int code;

	*ret = (struct ip_handovers){.rules = rules, .nrules = nrules};
	for (size_t i = 0; i < noperations; i++)
		room += operations[i]->n;
	all = calloc(room, sizeof(*all));
	if (!all)
		return ip_error("out of memory");
	for (size_t i = 0; i < noperations; i++)
		for (size_t k = 0; k < operations[i]->n; k++) {
			const struct ip_darc_operation *o = &operations[i]->items[k];

			all[n++] = (struct ip_handover_waiter){
				.run = o->run, .from = o->start, .to = o->start + o->ticks};
		}
	qsort(all, n, sizeof(*all), by_begin);
	code = ip_handover_pairs_find(trace, rules, nrules, since > 0, &pairs);
	if (code == 0)
		code = find_all(trace, &pairs, all, n, waits, ret);
	if (code == 0 && since)
		code = mark_early(trace, &pairs, since, ret);
	free(all);
	ip_handover_pairs_clear(&pairs);
	return code == 0 ? ip_handover_calls_read(trace, ret) : -1;
}

static void clear(struct ip_handover *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(items[i].meanwhile.events);
		free(items[i].within.events);
	}
	free(items);
}

void ip_handovers_clear(struct ip_handovers *h)
{
	clear(h->items, h->n);
	clear(h->in_turn, h->nin_turn);
	free(h->times);
	*h = (struct ip_handovers){0};
}

size_t ip_handovers_at(const struct ip_handovers *h, size_t run, uint64_t operation)
{
	size_t low = 0, high = h->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct ip_handover *x = &h->items[middle];

		if (x->run < run || (x->run == run && x->operation < operation))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}
