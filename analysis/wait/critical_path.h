/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an interval of a thread took so long: the critical path through all threads. From the end
 * backwards: while the thread ran or waited for a CPU, that is its reason. While it was blocked
 * and another thread woke it, the reason is what that thread did in the meantime; if it was
 * blocked in its turn, what the thread did that woke it, and so on. A waking from an interrupt
 * has no thread as its cause: there the path ends at the object that was waited for. Before a
 * thread was made, the reason is what the thread did that made it.
 *
 * The steps of a path cover the interval without gap or overlap: so their sum is its length.
 *
 * Giraldeau and Dagenais: Wait analysis of distributed systems using kernel tracing, 2016, has the
 * same idea for whole machines.
 */
#ifndef IP_CRITICAL_PATH_H
#define IP_CRITICAL_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/thread_states.h"

#define IP_PATH_DEPTH_MAX 64u

struct ip_path_step {
	uint64_t from, to; /* TSC */
	const struct ip_thread_states *thread;
	uint8_t state;	/* enum ip_thread_state */
	uint32_t wait;	/* BLOCKED: index into the thread's waits */
	uint32_t depth; /* 0: the thread itself; 1: who woke or made it; 2: who woke that... */
	int32_t other;	/* RUNNABLE: who had the CPU at first; 0: not known */
};

/* Finds the path. *ret: in order of time; the caller frees it. Returns 0, or -1 with an error. */
int ip_critical_path_find(const struct ip_states *states, const struct ip_thread_states *thread,
			  uint64_t from, uint64_t to, struct ip_path_step **ret, size_t *ret_n);

#endif
