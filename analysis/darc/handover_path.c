/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes backwards through a wait. What was handed over while something else was served could not be
 * served before that: so the path goes on there. What the waiting thread has handed over itself was
 * waited for as long as nothing later was served.
 */
#include "analysis/darc/handover_path.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

/* A wait ends with the serving, but for so much of what both have in common, or so long. */
#define TOLERANCE    4u
#define TOLERANCE_NS 200000u

struct finder {
	const struct ip_recording *session;
	const struct ip_handover_pairs *pairs;
	const struct ip_handover_waiter *waiters;
	size_t *marks; /* by pair: the last wait in which it handed on what the wait ended with */
	size_t wait;   /* its number, from 1 on */
	struct ip_handover *items;
	size_t n, first; /* first: of the wait */
	bool failed;
};

bool ip_handover_ends_with(const struct ip_recording *session, const struct ip_handover_pair *p,
			   const struct ip_handover_span *t)
{
	const uint64_t begin = t->from > p->given ? t->from : p->given,
		       end = t->to < p->end ? t->to : p->end,
		       common = end > begin ? end - begin : 0,
		       apart = t->to > p->end ? t->to - p->end : p->end - t->to;

	return apart <= common / TOLERANCE || ip_recording_ns(session, apart) <= TOLERANCE_NS;
}

/* What was served last comes first. */
static int by_wait(const void *left, const void *right, void *context)
{
	const struct ip_handover_candidate *a = left, *b = right;
	const struct ip_handover_pairs *pairs = context;
	const uint64_t x = pairs->items[a->pair].end, y = pairs->items[b->pair].end;

	if (a->waiter != b->waiter)
		return a->waiter < b->waiter ? -1 : 1;
	if (a->most.to != b->most.to)
		return a->most.to < b->most.to ? -1 : 1;
	if (x != y)
		return x > y ? -1 : 1;
	return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* A pair was served until then, if not to its end. Returns whether that is a part of the wait. */
static bool take(struct finder *f, const struct ip_handover_candidate *c, size_t pair,
		 uint64_t until)
{
	const struct ip_handover_pair *p = &f->pairs->items[pair];
	const struct ip_handover_waiter *w = &f->waiters[c->waiter];
	struct ip_handover *later = f->n > f->first ? &f->items[f->n - 1] : NULL;

	until = until < p->end ? until : p->end;
	until = until < c->most.to ? until : c->most.to;
	if (until <= p->start || until <= c->most.from)
		return false;
	if (later && later->from < until)
		later->from = until;
	if (ip_array_grow(&f->items, f->n, sizeof(*f->items)) < 0) {
		f->failed = true;
		return false;
	}
	f->items[f->n++] = (struct ip_handover){.run = w->run,
						.operation = w->from,
						.time = c->waiter,
						.given = p->given,
						.from = c->most.from,
						.to = c->most.to,
						.until = until,
						.server_run = p->run,
						.server = p->server,
						.start = p->start,
						.end = p->end};
	return true;
}

/* The pair that this one came of, in another thread than the one that waits. */
static size_t source_of(const struct finder *f, const struct ip_handover_candidate *c, size_t pair)
{
	const size_t run = f->waiters[c->waiter].run,
		     source = f->pairs->items[pair].given_run == run ? IP_HANDOVER_NONE
								     : f->pairs->items[pair].source;

	return source != IP_HANDOVER_NONE && f->pairs->items[source].run != run ? source
										: IP_HANDOVER_NONE;
}

/* Takes what a pair came of. Returns whether the wait has parts before all of that. */
static bool take_sources(struct finder *f, const struct ip_handover_candidate *c)
{
	size_t pair = c->pair;

	for (unsigned hops = 0; hops < IP_HANDOVER_HOPS_MOST && !f->failed; hops++) {
		const size_t source = source_of(f, c, pair);
		uint64_t until;

		if (source == IP_HANDOVER_NONE)
			return true;
		until = ip_handover_pair_handed(&f->pairs->items[pair]);
		if (until <= c->most.from)
			return false;
		take(f, c, source, until);
		pair = source;
	}
	return false;
}

/* What a wait ended with came of other pairs: the wait was not for what these did after that. */
static void mark_sources(struct finder *f, const struct ip_handover_candidate *c)
{
	size_t pair = c->pair;

	for (unsigned hops = 0; hops < IP_HANDOVER_HOPS_MOST; hops++) {
		pair = source_of(f, c, pair);
		if (pair == IP_HANDOVER_NONE)
			break;
		f->marks[pair] = f->wait;
	}
}

/* Candidates of one wait. */
static void find_wait(struct finder *f, const struct ip_handover_candidate *c, size_t n)
{
	uint64_t until = UINT64_MAX;

	f->wait++;
	f->first = f->n;
	for (size_t i = 0; i < n; i++)
		if (ip_handover_ends_with(f->session, &f->pairs->items[c[i].pair], &c[i].most))
			mark_sources(f, &c[i]);
	for (size_t i = 0; i < n && !f->failed; i++) {
		const struct ip_handover_pair *p = &f->pairs->items[c[i].pair];

		if (f->marks[c[i].pair] == f->wait && p->end > c[i].most.to &&
		    !ip_handover_ends_with(f->session, p, &c[i].most))
			continue;
		if (!take(f, &c[i], c[i].pair, until))
			continue;
		if (!take_sources(f, &c[i]))
			break;
		until = f->items[f->n - 1].start;
	}
}

/* Of a wait of a thread that serves, only what lies in the waiter's time counts. */
static void cut(struct finder *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->n; i++) {
		struct ip_handover h = f->items[i];
		const struct ip_handover_waiter *w = &f->waiters[h.time];

		h.from = h.from > w->from ? h.from : w->from;
		h.until = h.until < w->to ? h.until : w->to;
		if (ip_handover_from(&h) < h.until)
			f->items[kept++] = h;
	}
	f->n = kept;
}

int ip_handover_path_find(const struct ip_recording *session, const struct ip_handover_pairs *pairs,
			  const struct ip_handover_waiter *waiters,
			  struct ip_handover_candidate *candidates, size_t n,
			  struct ip_handover **ret, size_t *ret_n)
{
	struct finder f = {.session = session, .pairs = pairs, .waiters = waiters};
	size_t next;

	if (!n)
		return 0;
	f.marks = calloc(pairs->n, sizeof(*f.marks));
	if (!f.marks)
		return ip_error("out of memory");
	qsort_r(candidates, n, sizeof(*candidates), by_wait, (void *)pairs);
	for (size_t i = 0; i < n && !f.failed; i = next) {
		for (next = i; next < n && candidates[next].waiter == candidates[i].waiter &&
			       candidates[next].most.to == candidates[i].most.to;
		     next++)
			;
		find_wait(&f, &candidates[i], next - i);
	}
	free(f.marks);
	cut(&f);
	*ret = f.items;
	*ret_n = f.n;
	return f.failed ? -1 : 0;
}
