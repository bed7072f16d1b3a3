/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that were recorded with the calls within some operations: of each call path, what its
 * longest call was given, and what that returned.
 */
#ifndef IP_DARC_NODE_VALUES_H
#define IP_DARC_NODE_VALUES_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/operations.h"
#include "analysis/darc/values/open_values.h"

/* Bytes of the values of all operations: those that come later are left out, but those of F0. */
#define IP_NODE_VALUES_MOST (16u << 20)

/* What came with the entry, the exit and the points of a call; of a point that came several times,
 * the last values. */
struct ip_node_value {
	uint32_t node;
	uint64_t ticks;
	struct ip_kept_values args, result, *points;
	size_t npoints;
};

struct ip_node_values {
	struct ip_node_value *items; /* by node; those alone that have values */
	size_t n;
	bool left_out; /* there are more than are kept */
};

/* Reads the trace once more. operations: n of them, that were read of this trace with the same
 * ftree, depth, and without return addresses. ret: n of them. The caller clears them in any case.
 * Returns 0, or -1 with an error. */
int ip_node_values_read(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
			const struct ip_darc_operation *const *operations, size_t n,
			struct ip_node_values *ret);
void ip_node_values_clear(struct ip_node_values *values, size_t n);

/* Those of a node; NULL: nothing was recorded with its call, or there was none. */
const struct ip_node_value *ip_node_values_find(const struct ip_node_values *values, uint32_t node);

#endif
