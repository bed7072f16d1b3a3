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

/* Functions, or points, and the names of their values. */
struct ip_handover_rule {
	uint32_t giver, server;
	struct ip_value_name given, served;
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
	size_t run;	    /* of the operation */
	uint64_t operation; /* its begin */
	uint64_t operation_end;
	uint64_t given;
	/* The time in which the operation waited for it, and the part of that in which it was
	 * served ends. Where it has waited for several, from is not before the last one was served.
	 */
	uint64_t from, to, until;
	uint32_t in; /* the function that the operation was in then */
	size_t server_run;
	uint32_t server; /* the function, or the point */
	uint64_t start, end;
	/* what the thread that serves did while the object waited; and within the serving */
	struct ip_handover_calls meanwhile, within;
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

/* In the order of runs, operations, and times at which waits ended. */
struct ip_handovers {
	struct ip_handover *items;
	size_t n;
};

/* Finds those of some operations. Reads the trace three times. waits: as in ip_darc_read_options;
 * NULL: not known. The caller clears *ret in any case. Returns 0, or -1 with an error, also where
 * one of the functions has no such value. */
int ip_handovers_find(struct ip_trace_reader *trace, const struct ip_handover_rule *rules,
		      size_t nrules, const struct ip_darc_operations *const *operations,
		      size_t noperations, const struct ip_trace_waits *waits,
		      struct ip_handovers *ret);
void ip_handovers_clear(struct ip_handovers *handovers);

/* The first one of a run whose operation does not begin before a time. */
size_t ip_handovers_at(const struct ip_handovers *handovers, size_t run, uint64_t operation);

#endif
