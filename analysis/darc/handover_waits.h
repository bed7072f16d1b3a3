/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which times of threads are waits for what was handed over: the second reading of handovers.h.
 */
#ifndef IP_DARC_HANDOVER_WAITS_H
#define IP_DARC_HANDOVER_WAITS_H

#include "analysis/darc/handover_pairs.h"

/* A time of a thread, such as an operation. */
struct ip_handover_waiter {
	size_t run;
	uint64_t from, to;
};

/* Finds what was waited for in them. waiters: in the order of runs and begins; those of one run
 * follow one another. waits: as in ip_handovers_find(). *ret is an array of *ret_n, in the order of
 * waiters and times at which waits ended, without calls; time is the index of the waiter. The
 * caller frees it in any case. Returns 0, or -1 with an error. */
int ip_handover_waits_find(struct ip_trace_reader *trace, const struct ip_handover_pairs *pairs,
			   const struct ip_handover_waiter *waiters, size_t n,
			   const struct ip_trace_waits *waits, struct ip_handover **ret,
			   size_t *ret_n);

#endif
