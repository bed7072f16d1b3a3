/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call serves what was handed over, and in which it was: the first reading of handovers.h.
 */
#ifndef IP_DARC_HANDOVER_PAIRS_H
#define IP_DARC_HANDOVER_PAIRS_H

#include "analysis/darc/handovers.h"

#define IP_HANDOVER_NONE SIZE_MAX

/* A call that serves what was handed over. */
struct ip_handover_pair {
	size_t given_run;
	uint64_t given, given_end; /* the call that hands it over, or the point */
	/* The one that this thread served when it handed that over, or had served last, if the
	 * value is the same; IP_HANDOVER_NONE: none. */
	size_t source;
	size_t run; /* that serves */
	uint32_t server;
	uint64_t start, end;
};

struct ip_handover_pairs {
	struct ip_handover_pair *items;
	size_t n;
};

/* Until when a pair's source has to do with it: the object is handed over then at the latest. */
static inline uint64_t ip_handover_pair_handed(const struct ip_handover_pair *p)
{
	return p->given_end < p->start ? p->given_end : p->start;
}

/* Finds them all, in no order. may_lack: it is no error where one of the functions has no such
 * value. The caller clears *ret in any case. Returns 0, or -1 with an error. */
int ip_handover_pairs_find(struct ip_trace_reader *trace, struct ip_handover_rule *rules,
			   size_t nrules, bool may_lack, struct ip_handover_pairs *ret);
void ip_handover_pairs_clear(struct ip_handover_pairs *pairs);

#endif
