/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing a few sites in which somebody else has a hand: no byte is written that need not change,
 * so a breakpoint that the kernel sets or takes away at that very moment is neither lost nor
 * brought back. (patch.h writes whole ranges: for many sites, and only ours.)
 *
 *   1. Stop all threads, within the deadline.
 *   2. No program counter may stand inside a site (patch.h, 4).
 *   3. Read each site again; one that does not hold its old bytes any more is left out: it is
 *      looked at again later. So is one that is not mapped any more, of a library that may be
 *      unloaded; what is mapped stays so while all are stopped.
 *   4. Write the bytes from the first to the last that differ. Where they lie on two pages and the
 *      first byte is among them, in three writes as in patch.h; else the second page's first.
 *   5. Let the threads go.
 *
 * Also in a session that switches pages instead of stopping (remap.h). A page can be switched only
 * to or from what its file holds; here neither the page before nor the one after is that. It would
 * have to go by way of the file's, between two holds of a thread: meanwhile the other live sites of
 * the page record nothing, and a breakpoint that somebody still has in it, of which the kernel
 * knows by the address, is not where it should be. The stop is shorter than the two holds are.
 *
 * Killed between 3 and 5 we leave each site old or new, or, where it crosses a page, in transit.
 * One whose first byte stays (below a breakpoint) and which crosses a page may be left half old,
 * half new: it is not executed as long as the breakpoint is there.
 */
#ifndef IP_PATCH_IN_PLACE_H
#define IP_PATCH_IN_PLACE_H

#include "hotpatcher/patch/patch.h"

/* changes must be sorted by address. The number of sites changed (result->sites too), or -1:
 * nothing was. */
int ip_patch_in_place(struct ip_target *target, const struct ip_change *changes, size_t n,
		      uint64_t deadline_ns, struct ip_patch_result *result);

#endif
