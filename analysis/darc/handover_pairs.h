/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call serves what was handed over: the first reading of handovers.h.
 */
#ifndef IP_DARC_HANDOVER_PAIRS_H
#define IP_DARC_HANDOVER_PAIRS_H

#include "analysis/darc/handovers.h"

/* Finds them, in the order of runs, operations and times at which they were handed over, without
 * what comes from the second reading. operations: sorted by run and begin. The caller clears *ret
 * in any case. Returns 0, or -1 with an error. */
int ip_handover_pairs_find(struct ip_trace_reader *trace, const struct ip_handover_rule *rules,
			   size_t nrules, const struct ip_darc_operation *const *operations,
			   size_t noperations, struct ip_handovers *ret);

#endif
