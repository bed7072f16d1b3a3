/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds chains.
 */
#include "analysis/wait/wait_chain.h"

#include <string.h>

#define OBJECTS_MOST 32u /* that are told apart: behind them only longer waits count */

struct finder {
	const struct ip_states *states;
	const struct ip_descriptors *descriptors;
	const struct ip_thread_owners *owners;
	/* of one link: the candidates */
	struct candidate {
		struct ip_chain_link link;
		const struct ip_thread_wait *wait; /* the longest */
		uint64_t wait_from, wait_to;
	} candidates[OBJECTS_MOST];
	size_t n;
};

static struct candidate *find(struct finder *f, const struct ip_chain_link *like)
{
	struct candidate *least = NULL;

	for (size_t i = 0; i < f->n; i++) {
		struct candidate *c = &f->candidates[i];

		if (c->link.state == like->state &&
		    (c->link.state != IP_THREAD_BLOCKED ||
		     ip_wait_object_same(&c->link.object, &like->object)))
			return c;
		if (!least || c->link.ticks < least->link.ticks)
			least = c;
	}
	if (f->n < OBJECTS_MOST)
		least = &f->candidates[f->n++];
	else if (least->link.ticks >= like->ticks)
		return NULL;
	*least = (struct candidate){.link = *like};
	least->link.ticks = 0;
	least->link.longest = 0;
	return least;
}

static void add(struct finder *f, const struct ip_thread_states *t,
		const struct ip_thread_span *span, uint64_t from, uint64_t to)
{
	const struct ip_thread_wait *wait =
		span && span->state == IP_THREAD_BLOCKED ? &t->waits[span->wait] : NULL;
	struct ip_chain_link like = {.thread = t, .state = span ? span->state : IP_THREAD_UNKNOWN};
	struct candidate *c;

	if (from >= to)
		return;
	if (like.state == IP_THREAD_GONE)
		like.state = IP_THREAD_UNKNOWN;
	if (wait)
		ip_wait_object_of_thread(wait, f->descriptors, f->owners, t->tid, from,
					 &like.object);
	like.ticks = to - from;
	c = find(f, &like);
	if (!c)
		return;
	c->link.ticks += to - from;
	c->link.count++;
	if (to - from <= c->link.longest)
		return;
	c->link.longest = to - from;
	c->wait = wait;
	c->wait_from = c->link.at = from;
	c->wait_to = to;
}

/* What a thread did for most of an interval. NULL: the interval is empty. */
static struct candidate *most(struct finder *f, const struct ip_thread_states *t, uint64_t from,
			      uint64_t to)
{
	const uint64_t known = f->states->end < to ? f->states->end : to;
	size_t i = ip_states_span_at(t, from);
	struct candidate *best = NULL;

	f->n = 0;
	if (i == t->nspans) {
		const uint64_t first =
			t->nspans && t->spans[0].from < known ? t->spans[0].from : to;

		add(f, t, NULL, from, first);
		from = first;
		i = 0;
	}
	for (; i < t->nspans && from < known; i++) {
		uint64_t end = i + 1 < t->nspans && t->spans[i + 1].from < known
				       ? t->spans[i + 1].from
				       : known;

		add(f, t, &t->spans[i], from, end);
		from = end > from ? end : from;
	}
	add(f, t, NULL, from, to);
	for (i = 0; i < f->n; i++)
		if (!best || f->candidates[i].link.ticks > best->link.ticks)
			best = &f->candidates[i];
	return best;
}

void ip_wait_chain_find(const struct ip_states *states, const struct ip_descriptors *descriptors,
			const struct ip_thread_owners *owners, const struct ip_thread_states *t,
			uint64_t from, uint64_t to, struct ip_wait_chain *ret)
{
	struct finder f = {.states = states, .descriptors = descriptors, .owners = owners};

	ret->n = 0;
	while (t && ret->n < IP_CHAIN_MOST) {
		const struct candidate *c = most(&f, t, from, to);
		struct ip_chain_link *link = &ret->links[ret->n];
		const struct ip_thread_waking *waking;
		const struct ip_thread_wait *last;

		if (!c)
			return;
		ret->n++;
		*link = c->link;
		link->from = from;
		link->to = to;
		if (!c->wait)
			return;
		last = &t->waits[c->wait->last];
		waking = &last->waking;
		if (!waking->tsc || waking->context || !waking->waker ||
		    waking->tsc <= c->wait_from || (last == c->wait && waking->tsc > c->wait_to))
			return;
		t = ip_states_find(states, waking->waker, waking->tsc);
		if (t == link->thread)
			return;
		link->ender = t;
		link->is_lock = ip_wait_is_lock(&c->wait->call);
		from = c->wait_from;
		to = last == c->wait ? waking->tsc : c->wait_to;
	}
}
