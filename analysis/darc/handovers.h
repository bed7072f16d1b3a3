/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that goes on in another thread: a thread hands an object over, by a call or a point that has
 * its address or its number as a value, and waits; a call in another thread that has the same value
 * serves it. In operations of F0 the wait is told apart then: how long the object waited to be
 * served, and the call that served it, with all that this one calls.
 *
 * An object is served by the first call that has its value after it was handed over, and before a
 * value like that is handed over again. Which time of F0's thread was the wait follows from its
 * events: of the times from one event to the next, the one that has most in common with the time
 * from the handing over to the end of the serving. Where events of the kernel tell, it counts if
 * the thread was blocked in it. Else a wait ends with the serving: the times that are spent in one
 * function count if most of them end about then, or none of them does.
 * Where one time is a wait for several objects, it is followed backwards from the one that was
 * served last: what was served while a later one was counts for nothing.
 *
 * Who serves may hand work over in turn. Where F0's thread waits until that is served, too, the
 * wait is followed backwards through all of them: each was served until it had handed over the
 * next one. Where the thread that serves waits for it, that is a wait within the serving, which is
 * told apart as that of F0 is. Both go on for IP_HANDOVER_HOPS_MOST hops.
 */
#ifndef IP_DARC_HANDOVERS_H
#define IP_DARC_HANDOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/darc/operations.h"
#include "analysis/read/value_name.h"
#include "analysis/wait/trace_waits.h"

#define IP_HANDOVER_HOPS_MOST 16u

/* Functions, or points, and the names of their values. */
struct ip_handover_rule {
	uint32_t giver, server;
	struct ip_value_name given, served;
	/* Set by a search: there are such calls with the value; a point serves, and no call. */
	bool was_given, was_served, by_point;
};

/* A call that began or ended. An end is that of all open calls at its depth and deeper. */
struct ip_handover_event {
	uint64_t tsc;
	uint32_t function, member;
	uint64_t call_site; /* 0: not known */
	uint32_t depth;
	bool ends;
};

/* What a thread called in a time, in its order; also calls that were open when it began. */
struct ip_handover_calls {
	struct ip_handover_event *events;
	size_t n;
};

struct ip_handover {
	/* What waits: an operation; or a thread that serves, in a time in which others wait for it,
	 * which has its number in ip_handovers.times here. */
	size_t run;
	uint64_t operation; /* its begin */
	size_t time;
	uint64_t given;
	/* The time in which it was waited for, and the part of that in which it was served ends.
	 * Where it was waited for several, from is not before the last one was served. */
	uint64_t from, to, until;
	size_t server_run;
	uint32_t server; /* the function, or the point */
	uint64_t start, end;
	/* what the thread that serves did while the object waited; and within the serving */
	struct ip_handover_calls meanwhile, within;
	/* in ip_handovers.times, plus 1: the times that have what it waited for then; 0: nothing */
	size_t meanwhile_time, within_time;
	bool early; /* what is live had changed by then: not all that was called is known */
};

/* When the wait for an object began; and when it was served, as far as that was waited for. */
static inline uint64_t ip_handover_from(const struct ip_handover *h)
{
	return h->from > h->given ? h->from : h->given;
}

static inline uint64_t ip_handover_served_from(const struct ip_handover *h)
{
	return h->start > ip_handover_from(h) ? h->start : ip_handover_from(h);
}

/* A time in which a thread serves, or does something else while an object waits for it; and what
 * it waits for itself then: some of ip_handovers.in_turn, in the order of the ends of waits. */
struct ip_handover_time {
	size_t run;
	uint64_t from, to;
	size_t first, n;
};

struct ip_handovers {
	/* of operations: in the order of runs, operations, and times at which waits ended */
	struct ip_handover *items;
	size_t n;
	struct ip_handover *in_turn; /* of threads that serve */
	size_t nin_turn;
	struct ip_handover_time *times;
	size_t ntimes;
	const struct ip_handover_rule *rules; /* by which they were found; borrowed */
	size_t nrules;
};

/* Finds those of some operations. Reads the trace three times, and once more for each hop. waits:
 * as in ip_darc_read_options; NULL: not known. since: as there; 0: it is an error where one of the
 * functions has no such value. Else that is noted in the rules. The caller clears *ret in any case.
 * Returns 0, or -1 with an error. */
int ip_handovers_find(struct ip_trace_reader *trace, struct ip_handover_rule *rules, size_t nrules,
		      const struct ip_darc_operations *const *operations, size_t noperations,
		      const struct ip_trace_waits *waits, uint64_t since, struct ip_handovers *ret);
void ip_handovers_clear(struct ip_handovers *handovers);

/* The first one of a run whose operation does not begin before a time. */
size_t ip_handovers_at(const struct ip_handovers *handovers, size_t run, uint64_t operation);

#endif
