/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When each call within some operations began and ended: what timelines of these show.
 */
#ifndef IP_OPERATION_CALLS_H
#define IP_OPERATION_CALLS_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/operations.h"

struct ip_operation_call {
	uint32_t node;
	uint64_t start, ticks; /* start: since the operation began */
};

struct ip_operation_calls {
	struct ip_operation_call *items; /* in order of their starts, callers first */
	size_t n;
	uint64_t left_out; /* the shortest ones, beyond the limit */
};

/* Reads the trace once more. operations: n of them, that were read of this trace with the same
 * ftree, depth, and without return addresses. most: calls of each, at least 1; the longest are
 * kept. ret: n of them. The caller clears them in any case. Returns 0, or -1 with an error. */
int ip_operation_calls_read(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
			    const struct ip_darc_operation *const *operations, size_t n,
			    size_t most, struct ip_operation_calls *ret);
void ip_operation_calls_clear(struct ip_operation_calls *calls, size_t n);

#endif
