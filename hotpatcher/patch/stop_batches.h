/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of text in as many stops as it takes for none to last longer than the user allows
 * (--max-stop).
 *
 *   1. Of the time allowed, half is for writing, less what gathering the threads is expected to
 *      take where that is more than the other half. Pages and crossing sites that are expected to
 *      be written in it make a part; what is expected follows from the stops so far (patch.h), so
 *      the first one guides the next.
 *   2. Changes of one group go into the same part: a group is a function, so that no function has
 *      its entry live and its exit idle. Groups are ordered by where they begin, so that parts
 *      write few pages twice.
 *   3. The gate is written with the first part, and the same with each later one: recording begins
 *      with the first stop, and where all becomes idle it ends there, so between the stops a trace
 *      has whole functions or nothing.
 *   4. What may work a moment later (a thread did not stop in time, or stood inside a site) is
 *      tried again, 4 times at most, or as often as the caller says where threads got no CPU in
 *      time, with the target left to run meanwhile (ip_stop_rest_ns()): for 10 s at most, and not
 *      when the user has interrupted us.
 *   5. A part that fails ends it; the parts before stay as they are, and the caller puts them back.
 */
#ifndef IP_STOP_BATCHES_H
#define IP_STOP_BATCHES_H

#include "hotpatcher/patch/patch.h"

/* Orders changes for step 2. 0, or -1: out of memory. */
int ip_stop_batches_order(struct ip_change *changes, size_t n);

/* How many of the changes, which are in order, make the next part: whole groups, one at least. */
size_t ip_stop_batches_next(const struct ip_change *changes, size_t n, uint64_t write_ns);

/* The time for writing in one stop of so many threads. */
uint64_t ip_stop_batches_write_ns(uint64_t max_stop_ns, size_t threads);

/* How long the longest stop is expected to be, and how many there are; changes are ordered by
 * it. */
uint64_t ip_stop_batches_expect(struct ip_change *changes, size_t n, uint64_t max_stop_ns,
				size_t threads, size_t *ret_stops);

/* Carries out all changes; they are not reordered. tries: for each part, see step 4. ret: all
 * stops together; it says what has been done where it fails, too. 0 or -1. */
int ip_stop_batches_apply(struct ip_target *target, const struct ip_change *changes, size_t n,
			  uint64_t max_stop_ns, int64_t gate_session, unsigned tries,
			  struct ip_patch_result *ret);

#endif
