/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each part of a wait was for, where it was for several objects: the critical path, from the
 * end of the wait backwards.
 */
#ifndef IP_DARC_HANDOVER_PATH_H
#define IP_DARC_HANDOVER_PATH_H

#include "analysis/darc/handover_waits.h"

/* From one event of a thread to the next. */
struct ip_handover_span {
	uint64_t from, to;
	uint32_t in; /* the innermost function */
};

/* A pair that a waiter may have waited for. */
struct ip_handover_candidate {
	size_t waiter, pair;
	size_t root; /* the pair that the waiter's thread has handed over, of which this one came */
	/* the time that has most in common with it, and that of those that end with the serving */
	struct ip_handover_span most, fit;
	int judged; /* private to handover_waits.c */
};

/* Whether the time ended about when the serving did. */
bool ip_handover_ends_with(const struct ip_recording *session, const struct ip_handover_pair *pair,
			   const struct ip_handover_span *span);

/* candidates: all that was waited for, each in its time (most); their order is changed. *ret and
 * *ret_n are as in ip_handover_waits_find(). Returns 0, or -1 with an error. */
int ip_handover_path_find(const struct ip_recording *session, const struct ip_handover_pairs *pairs,
			  const struct ip_handover_waiter *waiters,
			  struct ip_handover_candidate *candidates, size_t n,
			  struct ip_handover **ret, size_t *ret_n);

#endif
