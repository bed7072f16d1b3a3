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
 * from the handing over to the end of the serving. A wait ends with the serving: so a time counts
 * only if it ends about then, or, where events of the kernel tell, if the thread was blocked in it.
 * Where one time is a wait for several objects, it counts for the one that was served last.
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

/* A call within the serving that began or ended. */
struct ip_handover_event {
	uint64_t tsc;
	uint32_t function, member;
	uint64_t call_site; /* 0: not known */
	uint32_t begin;	    /* of an end: the index of its begin; UINT32_MAX: it is a begin */
};

struct ip_handover {
	size_t run;	    /* of the operation */
	uint64_t operation; /* its begin */
	uint64_t operation_end;
	uint64_t given;
	uint64_t from, to; /* the time in which the operation waited for it */
	size_t server_run;
	uint32_t server; /* the function, or the point */
	uint64_t start, end;
	struct ip_handover_event *events;
	size_t n;
};

/* In the order of runs, operations, and times at which waits ended. */
struct ip_handovers {
	struct ip_handover *items;
	size_t n;
};

/* Finds those of some operations. Reads the trace twice. waits: as in ip_darc_read_options; NULL:
 * not known. The caller clears *ret in any case. Returns 0, or -1 with an error, also where one of
 * the functions has no such value. */
int ip_handovers_find(struct ip_trace_reader *trace, const struct ip_handover_rule *rules,
		      size_t nrules, const struct ip_darc_operations *const *operations,
		      size_t noperations, const struct ip_trace_waits *waits,
		      struct ip_handovers *ret);
void ip_handovers_clear(struct ip_handovers *handovers);

/* The first one of a run whose operation does not begin before a time. */
size_t ip_handovers_at(const struct ip_handovers *handovers, size_t run, uint64_t operation);

#endif
