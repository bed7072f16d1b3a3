/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the collector sleeps between two polls. Nothing may be lost during the sleep, and the
 * sleep should be so short that the rings stay small.
 *
 *   - The sleep is never longer than all threads together, at their highest rate, need to fill half
 *     of the free sub-buffers. A target that has been idle for hours may start at full speed in the
 *     next moment.
 *   - While events come, the sleep is as long as a few sub-buffers take to fill at the last rate.
 *     So emptied sub-buffers are used again while they are in the cache.
 *   - While no events come, the sleep is twice as long each time.
 *   - There is no sleep while few sub-buffers are free and threads are using them. When no events
 *     have come for some polls, the sleep is at least a millisecond.
 *
 * The target does not wake the collector: it only stores into the rings.
 */
#ifndef IP_POLL_INTERVAL_H
#define IP_POLL_INTERVAL_H

#include <stdint.h>

struct ip_poll_interval {
	uint64_t nap_ns, turned_ns;
	unsigned cpus, idle;
};

#define IP_POLL_INTERVAL_MAX_NS	 10000000ull
#define IP_POLL_INTERVAL_MIN_NS	 50000ull
#define IP_POLL_INTERVAL_IDLE_NS 1000000ull /* least sleep after some polls without events */

/* To be called after a poll that emptied taken of total sub-buffers. free: number of free ones now.
 * writers: number of threads that have recorded. max_ns: limit because of other work. Returns
 * nanoseconds to sleep; 0: poll again at once. */
uint64_t ip_poll_interval_nap(struct ip_poll_interval *interval, uint64_t now_ns, unsigned taken,
			      unsigned free, unsigned total, unsigned writers, uint64_t max_ns);

/* Another event came, such as a request on the control socket: makes the next sleep short. */
void ip_poll_interval_hurry(struct ip_poll_interval *interval);

#endif
