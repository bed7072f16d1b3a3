/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in a function its own time goes: entry, calls and exits split it into stretches. A stretch
 * leads from the entry, or the end of a callee, to the begin of the next callee, or the exit. Where
 * return addresses were recorded, a callee is a place in the code.
 *
 * Within a stretch there is no call: so it cannot be narrowed down by calls any further.
 */
#ifndef IP_STRETCHES_H
#define IP_STRETCHES_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/search.h"

/* Of one function; others count as left out. */
#define IP_STRETCHES_MOST 1024u

struct ip_stretch {
	uint32_t from, to; /* nodes of the ftree; IP_FTREE_NONE: the entry, and the exit */
	/* in one call of the cause, in the mean; medians of the reference. Without those in which
	 * something else had the CPU of the thread, where that is known. */
	double ticks, times;
	double reference_ticks, reference_times;
};

/* Of one root cause. */
struct ip_stretches {
	struct ip_stretch *items; /* by what they are longer by than in the reference */
	size_t n;
	size_t calls; /* of the cause, that were taken apart; 0: it is none that has stretches */
	uint64_t left_out;
};

/* Finds the stretches of the root causes of a search of the trace that are functions themselves, in
 * the calls that are the longest in their operations. Reads the trace once. *ret: by cause;
 * NULL: there is none. ip_stretches_destroy() frees it. Returns 0, or -1 with an error. */
int ip_stretches_find(struct ip_trace_reader *trace, const struct ip_trace_waits *waits,
		      struct ip_darc_search *search, struct ip_stretches **ret);
void ip_stretches_destroy(struct ip_stretches *stretches, size_t n);

#endif
