/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives calls of another thread to a builder of operations.
 */
#include "analysis/darc/handover_builder.h"

#include <stdlib.h>

#include "common/error.h"

struct target {
	struct ip_darc_builder *builder;
	uint32_t member;
	bool plain;
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

/* What was called between two times, as far as it lies there. */
static int put_calls(const struct target *t, const struct ip_handover_calls *calls, uint64_t from,
		     uint64_t to)
{
	struct other_call *found = calloc(calls->n + 1, sizeof(*found));
	size_t top = 0;

	if (!found)
		return ip_error("out of memory");
	find_ends(calls, to, found);
	for (size_t i = 0; i <= calls->n; i++) {
		const struct ip_handover_event *e = i < calls->n ? &calls->events[i] : NULL;

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
	return 0;
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

int ip_handover_put(struct ip_darc_builder *builder, const struct ip_handover *h, uint32_t member,
		    bool plain)
{
	const struct target t = {.builder = builder, .member = member, .plain = plain};
	const uint64_t from = ip_handover_from(h), begin = ip_handover_served_from(h),
		       to = h->until;
	int ret = 0;

	ip_darc_builder_switch(builder, h->server_run);
	if (begin > from && from < to)
		ret = put_time(&t, h, IP_FTREE_QUEUED, from, from, begin < to ? begin : to,
			       &h->meanwhile);
	if (ret == 0 && to > begin)
		ret = put_time(&t, h, IP_FTREE_SERVED, h->start, begin, to, &h->within);
	ip_darc_builder_switch(builder, h->run);
	return ret;
}
