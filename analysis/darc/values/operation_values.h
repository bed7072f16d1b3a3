/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values that were recorded with operations: what F0 was given, and what it returned.
 * Operations are read without them: only a few of many are shown.
 */
#ifndef IP_DARC_OPERATION_VALUES_H
#define IP_DARC_OPERATION_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/darc/operations.h"

/* What came with the entry and the exit of a call (common/trace/trace_format.h); NULL: nothing. */
struct ip_operation_values {
	uint64_t *args, *result;
};

/* Reads the trace once more. operations: n of them, of this trace; function: F0. ret: n of them.
 * The caller clears them in any case. Returns 0, or -1 with an error. */
int ip_operation_values_read(struct ip_trace_reader *trace, uint32_t function,
			     const struct ip_darc_operation *const *operations, size_t n,
			     struct ip_operation_values *ret);
void ip_operation_values_clear(struct ip_operation_values *values, size_t n);

#endif
