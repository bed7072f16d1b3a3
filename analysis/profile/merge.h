/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All threads of a trace at once, in the order of time.
 */
#ifndef IP_MERGE_H
#define IP_MERGE_H

#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Feeds the events of all threads, or of thread tid alone (0: all), to the visitor in time order;
 * visitor->run() says whose the next ones are. *ret_events: how many. 0, or -1 with an error.
 * The visitor may end it early by setting *stop. */
int ip_merge(struct ip_trace_reader *trace, uint32_t tid, const struct ip_trace_visitor *visitor,
	     const bool *stop, uint64_t *ret_events);

#endif
