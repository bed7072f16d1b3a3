/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call of a thread is the innermost one, from each time to the next: for analyses that charge
 * a thread's time, or what happened in it, to calls.
 */
#ifndef IP_OPEN_CALLS_H
#define IP_OPEN_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/callstack/frames.h"
#include "analysis/callstack/trace.h"

/* What calls are to the caller: a number each, such as a node of a call tree. */
struct ip_open_calls_ops {
	/* A thread begins. Returns whether its calls are wanted; they are skipped where not. */
	bool (*run)(void *context, const struct ip_thread_packets *run);
	/* No call began or ended since the last time and before ts (TSC). innermost: the number of
	 * the innermost open call; NULL: none is open. */
	void (*pass)(void *context, const uint32_t *innermost, uint64_t ts);
	/* A call begins. above: the number of the call below it on the stack; NULL: there is none.
	 * Sets *ret to the call's number. Returns 0, or -1 with an error, which ends it all. */
	int (*opened)(void *context, const struct ip_frame *frame, const uint32_t *above,
		      uint32_t *ret);
	/* A call has ended, also one that was left before; NULL: this is not wanted. */
	void (*closed)(void *context, const struct ip_frame *frame, uint64_t end,
		       enum ip_frame_end how);
};

/* Reads all calls of a trace, thread by thread. unknown: the number of a call that is not known.
 * *ret_events is the number of events. Returns 0, or -1 with an error. */
int ip_open_calls_read(struct ip_trace_reader *trace, const struct ip_open_calls_ops *ops,
		       void *context, uint32_t unknown, uint64_t *ret_events);

#endif
