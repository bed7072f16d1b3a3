/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had a lock while a thread waited for it. The thread that ends the wait had it last; where
 * that one had waited for the lock itself meanwhile, it got it from another thread, which had it
 * before; and so on, back to who had it when the wait began. So a lock that is held for long is
 * charged to who holds it, also for the threads behind the first in the queue.
 */
#ifndef IP_LOCK_HOLDER_H
#define IP_LOCK_HOLDER_H

#include <stdint.h>

#include "analysis/wait/thread_states.h"

/* holder: whose waking ended the wait, which is a later one's or the thread's own; it had the lock,
 * as far as the events tell, from one time to another, TSC. Returns 0, or -1 to stop. */
typedef int ip_lock_holder_fn(void *context, const struct ip_thread_wait *wait,
			      const struct ip_thread_states *holder, uint64_t from, uint64_t to);

/* Visits, the latest first, who had the lock from one time to another, within a wait for it that
 * ended by the waking of a thread which is known. The parts cover the interval. Returns 0, or what
 * the visitor returned. */
int ip_lock_holders(const struct ip_states *states, const struct ip_thread_wait *wait,
		    uint64_t from, uint64_t to, ip_lock_holder_fn *visit, void *context);

#endif
