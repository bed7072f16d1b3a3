/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads all threads of a trace at once, in order of time.
 */
#ifndef IP_MERGE_H
#define IP_MERGE_H

#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Feeds the events of thread tid (0: all threads) to the visitor in order of time.
 * visitor->run() tells to which thread the next events belong. *ret_events is their number. The
 * visitor can end the reading early by setting *stop. Returns 0, or -1 with an error. */
int ip_merge(struct ip_trace_reader *trace, uint32_t tid, const struct ip_trace_visitor *visitor,
	     const bool *stop, uint64_t *ret_events);

#endif
