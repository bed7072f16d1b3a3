/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives calls of another thread to a builder of operations.
 */
#include "analysis/darc/handover_builder.h"

#include <stdlib.h>

#include "common/error.h"

/* Where calls are put. */
struct target {
	struct ip_darc_builder *builder;
	const struct ip_handovers *all;
	uint32_t member;
	bool plain;
	const struct target *above; /* the same of the thread that waits for this one; NULL: none */
	size_t run;		    /* the thread whose calls are put */
	size_t time; /* in all->times, plus 1: what the thread waits for; 0: nothing */
};

/* A call of the other thread. */
struct other_call {
	uint64_t end;
	uint32_t number; /* for the builder */
	size_t below;	 /* the one that is open below it, plus 1 */
};

/* Sets the ends. */
static void find_ends(const struct ip_handover_calls *calls, uint64_t to, struct other_call *ret)
{
	size_t top = 0; /* index + 1 of the innermost open call */

	for (size_t i = 0; i < calls->n; i++) {
		const struct ip_handover_event *e = &calls->events[i];

		for (; top && calls->events[top - 1].depth >= e->depth; top = ret[top - 1].below)
			ret[top - 1].end = e->tsc < to ? e->tsc : to;
		if (e->ends)
			continue;
		ret[i] = (struct other_call){.end = to, .below = top};
		top = i + 1;
	}
}

static int put(const struct target *target, const struct ip_handover *h, uint64_t from,
	       uint64_t to);

/* Whether a thread waits for another one already, by way of others: then that one waits, too, and
 * serves nothing. */
static bool is_waiting(const struct target *t, size_t run)
{
	for (; t; t = t->above)
		if (t->run == run)
			return true;
	return false;
}

/* The first wait of a thread that ends behind a time. */
static size_t first_wait(const struct ip_handovers *all, const struct ip_handover_time *time,
			 uint64_t from)
{
	size_t low = time->first, high = time->first + time->n;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (all->in_turn[middle].to > from)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Puts what the thread has waited for up to an event. *next: the first wait that has not been put.
 */
static int put_waits(const struct target *t, size_t *next, uint64_t event, uint64_t from,
		     uint64_t to)
{
	const struct ip_handover_time *time = t->time ? &t->all->times[t->time - 1] : NULL;
	int ret = 0;

	for (; time && *next < time->first + time->n; ++*next) {
		const struct ip_handover *h = &t->all->in_turn[*next];

		if (h->to > event)
			break;
		if (ret == 0 && !is_waiting(t, h->server_run))
			ret = put(t, h, from, to);
	}
	return ret;
}

/* What was called between two times, as far as it lies there. */
static int put_calls(const struct target *t, const struct ip_handover_calls *calls, uint64_t from,
		     uint64_t to)
{
	struct other_call *found = calloc(calls->n + 1, sizeof(*found));
	size_t top = 0, wait = t->time ? first_wait(t->all, &t->all->times[t->time - 1], from) : 0;
	int ret = 0;

	if (!found)
		return ip_error("out of memory");
	find_ends(calls, to, found);
	for (size_t i = 0; i <= calls->n; i++) {
		const struct ip_handover_event *e = i < calls->n ? &calls->events[i] : NULL;

		if (ret == 0)
			ret = put_waits(t, &wait, e ? e->tsc : UINT64_MAX, from, to);
		for (; top && (!e || calls->events[top - 1].depth >= e->depth);
		     top = found[top - 1].below)
			if (found[top - 1].number) {
				const uint64_t start = calls->events[top - 1].tsc;

				ip_darc_builder_leave(t->builder, found[top - 1].number, start,
						      found[top - 1].end,
						      from > start ? from - start : 0);
			}
		if (!e || e->ends)
			continue;
		if (e->tsc < to && found[i].end > from)
			found[i].number =
				ip_darc_builder_enter(t->builder, e->function, e->member,
						      t->plain ? 0 : e->call_site, e->tsc, 0);
		top = i + 1;
	}
	free(found);
	return ret;
}

/* A time of the other thread becomes a callee of the call that waits. What lies before it, in which
 * the call there had begun already, counts for nothing. */
static int put_time(const struct target *t, const struct ip_handover *h, uint64_t site,
		    uint64_t start, uint64_t from, uint64_t to,
		    const struct ip_handover_calls *calls)
{
	const uint32_t number =
		ip_darc_builder_enter(t->builder, h->server, t->member, site, start, 0);
	const int ret = put_calls(t, calls, from, to);

	ip_darc_builder_leave(t->builder, number, start, to, from > start ? from - start : 0);
	return ret;
}

/* What was waited for, as far as it lies between two times. */
static int put(const struct target *above, const struct ip_handover *h, uint64_t from, uint64_t to)
{
	struct target t = *above;
	uint64_t begin;
	int ret = 0;

	t.above = above;
	t.run = h->server_run;
	from = from > ip_handover_from(h) ? from : ip_handover_from(h);
	begin = h->start > from ? h->start : from;
	to = to < h->until ? to : h->until;
	ip_darc_builder_switch(t.builder, t.run);
	t.time = h->meanwhile_time;
	if (begin > from && from < to)
		ret = put_time(&t, h, IP_FTREE_QUEUED, from, from, begin < to ? begin : to,
			       &h->meanwhile);
	t.time = h->within_time;
	if (ret == 0 && to > begin)
		ret = put_time(&t, h, IP_FTREE_SERVED, h->start, begin, to, &h->within);
	ip_darc_builder_switch(t.builder, above->run);
	return ret;
}

int ip_handover_put(struct ip_darc_builder *builder, const struct ip_handovers *all,
		    const struct ip_handover *h, uint32_t member, bool plain)
{
	const struct target t = {
		.builder = builder, .all = all, .member = member, .plain = plain, .run = h->run};

	return put(&t, h, 0, UINT64_MAX);
}
