/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that threads waited for: for how long, who had them, and in which functions.
 *
 * Locks are futexes that a thread waits for at a value which tells a lock (ip_wait_is_lock()), and
 * locks of files (flock, fcntl). A lock that is free is taken without a system call: such a lock
 * and its unlocking are no events. What the events tell of the time that a lock was had:
 *
 *   - A thread that waited for a futex and got it had it from the return of its last wait. The
 *     unlocking is a system call then, as the lock was contended: that time is whole.
 *   - Else the lock was had from when somebody began to wait for it, at the latest, and until the
 *     system call that woke a waiter: at least that time.
 *
 * What ended after events of the kernel were lost, and began before, is left out.
 */
#ifndef IP_LOCK_PROFILE_H
#define IP_LOCK_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_object.h"

/* Times are TSC ticks. */
struct ip_lock_sums {
	uint64_t waits, wait_ticks, wait_max;
	uint64_t had, had_ticks, had_max; /* times that it was had while somebody waited for it */
	uint64_t whole, whole_ticks;	  /* of these, those that are known from their begin */
};

struct ip_lock_function {
	uint32_t function; /* the innermost one of the thread; IP_NO_FUNCTION_AT: none is known */
	struct ip_lock_sums sums;
};

struct ip_lock {
	struct ip_wait_object object;
	uint32_t pid; /* futex: whose */
	struct ip_lock_sums sums;
	struct ip_lock_function *functions; /* those with the most time first */
	size_t nfunctions;
};

struct ip_lock_profile {
	struct ip_lock *locks; /* those first that were waited for longest */
	size_t n;
	uint64_t events; /* of functions, in the trace */
	/* Private. */
	struct ip_lock_function *functions;
};

/* trace: NULL: functions are not asked for. What is given must outlive the profile. Returns NULL
 * with an error. */
struct ip_lock_profile *ip_lock_profile_make(struct ip_trace_reader *trace,
					     const struct ip_states *states,
					     const struct ip_descriptors *descriptors,
					     const struct ip_thread_owners *owners);
void ip_lock_profile_destroy(struct ip_lock_profile *profile);

#endif
