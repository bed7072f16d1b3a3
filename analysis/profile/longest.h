/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the slowest call of each function of a trace: the one whose duration is the max of the
 * report (stats.h).
 */
#ifndef IP_LONGEST_H
#define IP_LONGEST_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Times in TSC. */
struct ip_longest_call {
	size_t run;	     /* index into trace->runs; IP_NO_RUN: no call of the function ended */
	uint64_t start, end; /* lost events included */
	uint64_t ticks;	     /* the duration */
	size_t depth;	     /* frames below it when it began */
};

#define IP_NO_RUN SIZE_MAX

/* Reads the whole trace. *ret is malloc'ed, by function as in session->functions. Returns 0, or -1
 * with an error. */
int ip_longest_find(struct ip_trace_reader *trace, struct ip_longest_call **ret);

#endif
