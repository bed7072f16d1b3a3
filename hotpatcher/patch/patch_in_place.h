/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing a few sites that another program has changed, too. No byte is written that need not
 * change: so a breakpoint that the kernel sets or removes at that very moment is neither lost nor
 * brought back. (patch.h writes whole ranges: for many sites, and only those that hold iprobe's
 * bytes alone.)
 *
 *   1. Stop all threads, within the deadline.
 *   2. No program counter may stand inside a site (patch.h, 4).
 *   3. Read each site again. A site that does not hold its old bytes any more is left out: iprobe
 *      looks at it again later. So is a site of a library that may be unloaded, if it is not
 *      mapped any more; what is mapped stays mapped while all threads are stopped.
 *   4. Write the bytes from the first to the last that differ. If they lie on two pages and the
 *      first byte of the site is among them, use three writes as in patch.h. If the first byte is
 *      not among them, write the second page's bytes first.
 *   5. Let the threads go.
 *
 * This is also done in a session that switches pages instead of stopping (remap.h). A page can be
 * switched only to or from what its file holds; here neither the page before nor the page after is
 * that. The change would have to go by way of the file's page, between two holds of a thread.
 * Meanwhile the other live sites of the page would record nothing, and a breakpoint that another
 * program still has in the page, which the kernel knows by its address, would not be in its place.
 * The stop is shorter than the two holds would be.
 *
 * If iprobe is killed between 3 and 5, each site is old or new, or, if it crosses a page, in
 * transit. A site whose first byte stays (below a breakpoint) and which crosses a page may be left
 * half old, half new: it is not executed as long as the breakpoint is there.
 */
#ifndef IP_PATCH_IN_PLACE_H
#define IP_PATCH_IN_PLACE_H

#include "hotpatcher/patch/patch.h"

/* changes must be sorted by address. deadline_ns: the time allowed for the stop. Returns the number
 * of sites changed (result->sites, too), or -1 with the reason: result->sites were changed until
 * then, and none after. */
int ip_patch_in_place(struct ip_target *target, const struct ip_change *changes, size_t n,
		      uint64_t deadline_ns, struct ip_patch_result *result);

/* Step 4 for one site, which must hold its old bytes. 0, or -1 with an error. */
int ip_patch_in_place_write(const struct ip_target *target, const struct ip_change *change);

#endif
