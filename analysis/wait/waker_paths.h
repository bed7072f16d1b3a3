/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In which calls threads were when they woke another one.
 */
#ifndef IP_WAKER_PATHS_H
#define IP_WAKER_PATHS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/calltree.h"
#include "analysis/wait/thread_states.h"

struct ip_waking_path {
	int32_t waker; /* tid */
	uint32_t node; /* 0: in no recorded call */
	uint64_t tsc;
};

struct ip_waker_paths {
	struct ip_calltree *tree;     /* of call paths; of its sums none is filled in */
	struct ip_waking_path *items; /* by waker, then by time */
	size_t n;
};

/* Reads the calls of the trace. Returns NULL with an error. */
struct ip_waker_paths *ip_waker_paths_read(struct ip_trace_reader *trace,
					   const struct ip_states *states);
void ip_waker_paths_destroy(struct ip_waker_paths *paths);

/* The call that a thread was in innermost when it woke another one; 0: in none. */
uint32_t ip_waker_paths_node(const struct ip_waker_paths *paths,
			     const struct ip_thread_waking *waking);
/* The same for who ended a wait; of a lock: the call that the thread was in when the wait began,
 * for it had the lock then. */
uint32_t ip_waker_paths_holder(const struct ip_waker_paths *paths,
			       const struct ip_thread_wait *wait);

#endif
