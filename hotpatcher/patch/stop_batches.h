/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of text in several stops, so many that none of them lasts longer than the user allows
 * (--max-stop).
 *
 *   1. Half of the time allowed is for writing. If gathering the threads is expected to take more
 *      than the other half, the time for writing is shorter by the excess. A part is made of as
 *      many pages and crossing sites as are expected to be written in that time. The expectation
 *      follows from the stops so far (patch.h), so each stop guides the next.
 *   2. Changes of one group go into the same part. A group is a function, so that no function has
 *      its entry live and its exit idle. Groups are ordered by where they begin, so that parts
 *      write few pages twice.
 *   3. The gate is written with the first part, and again with the same value with each later one.
 *      Recording begins with the first stop; if all sites become idle, it ends with the first
 *      stop. So between the stops a trace has whole functions or nothing.
 *   4. A part that failed may succeed a moment later (a thread did not stop in time, or stood
 *      inside a site). Such a part is tried as often as the caller says, but at most 4 times in
 *      all unless threads got no CPU in time. Between two tries the target is left to run
 *      (ip_stop_rest_ns()). The tries take 10 s at most, and end when the user interrupts iprobe.
 *   5. If a part fails, no further part is written. The parts before it stay as they are, and the
 *      caller puts them back.
 */
#ifndef IP_STOP_BATCHES_H
#define IP_STOP_BATCHES_H

#include "hotpatcher/patch/patch.h"

/* Orders changes for step 2. 0, or -1: out of memory. */
int ip_stop_batches_order(struct ip_change *changes, size_t n);

/* Returns how many of the changes, which are in order, make the next part: whole groups, and at
 * least one. */
size_t ip_stop_batches_next(const struct ip_change *changes, size_t n, uint64_t write_ns);

/* Step 1. Returns the time for writing in a stop of this many threads, in nanoseconds. */
uint64_t ip_stop_batches_write_ns(uint64_t max_stop_ns, size_t threads);

/* Returns how many nanoseconds the longest stop is expected to take, and in *ret_stops how many
 * stops there are. Orders the changes. */
uint64_t ip_stop_batches_expect(struct ip_change *changes, size_t n, uint64_t max_stop_ns,
				size_t threads, size_t *ret_stops);

/* How often each part may be tried, see step 4; looked: as for ip_patch_prepare(). */
struct ip_stop_batches_tries {
	unsigned n;
	bool looked;
};

/* Carries out all changes; they are not reordered. *ret: all stops together; after a failure it
 * says what has been done. 0 or -1 with the reason. */
int ip_stop_batches_apply(struct ip_target *target, const struct ip_change *changes, size_t n,
			  uint64_t max_stop_ns, int64_t gate_session,
			  struct ip_stop_batches_tries tries, struct ip_patch_result *ret);

#endif
