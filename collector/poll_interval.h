/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the collector sleeps between two turns: as long as nothing can be lost meanwhile, and as
 * short as keeps the rings small.
 *
 *   - Never longer than the fastest that all threads together could write takes to fill half of
 *     what is free: a target that has been idle for hours may start at full speed in the next
 *     moment.
 *   - While events come, as long as a few sub-buffers take to fill at the rate at which they came
 *     last: emptied ones are handed out again while they are in the cache.
 *   - While none come, twice as long each time.
 *   - Not at all while little is free and is being used. Never less than a millisecond once nothing
 *     has come for some turns.
 *
 * Nobody wakes it: the target does nothing for us but store.
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
#define IP_POLL_INTERVAL_IDLE_NS 1000000ull /* the shortest after a while in which nothing came */

/* After a turn in which taken sub-buffers of total were emptied; free: of them, now; writers:
 * threads that have recorded. max_ns: because of what else is to be looked after. Nanoseconds;
 * 0: go on at once. */
uint64_t ip_poll_interval_nap(struct ip_poll_interval *interval, uint64_t now_ns, unsigned taken,
			      unsigned free, unsigned total, unsigned writers, uint64_t max_ns);

/* Somebody wants something: look again soon. */
void ip_poll_interval_hurry(struct ip_poll_interval *interval);

#endif
