/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The changes after which exactly the selected sites are live, whatever is live now. This is the
 * plan for a session that already runs, when its selection changes or libraries are loaded.
 *
 * What is live now is read from the text. There is no separate record that could be wrong. A
 * selected site that is already live stays live, so its function goes on recording without a gap. A
 * site that another program has changed is left alone and counted, and the other sites of its
 * function do not go live (plan_conflicts.h).
 *
 * How to use it: ip_session_update() (update.h) does all of it for a session. By hand:
 *
 *   ip_plan_diff_make()      modules and selections as they are to be from now on; the maps are
 *                            those of ip_target_refresh()
 *   ip_values_plan(&d.live)  if values are recorded and d.live.nchanges is not 0
 *   ip_plan_bind(&d.live), ip_trace_add_plan(&d.live), ip_trace_sync()
 *   ip_plan_diff_changes()   one array for ip_patch_prepare(): a single patch writes both parts
 *   ip_trace_add_change()    after the stop
 */
#ifndef IP_PLAN_DIFF_H
#define IP_PLAN_DIFF_H

#include "hotpatcher/plan/plan.h"

struct ip_plan_diff {
	struct ip_plan live; /* what is to go live; its functions are only those with such a site */
	struct ip_plan idle; /* what is to go idle; both forms filled in, functions numbered */
	/* Selected functions that are live already since others end by jumping to them (silent),
	 * and were not selected before: no change of theirs is needed. They are numbered. */
	struct ip_plan shown;
	size_t shown_sites;
	size_t functions; /* selected functions, live or not */
	size_t kept;	  /* sites that are live and stay live */
	/* sites with foreign contents, selected or not; they are left alone */
	size_t foreign;
	uint64_t first_foreign;
};

/* Makes the parts. It is no error if one of them is empty, or all. Modules that are not mapped any
 * more are left out. The area gives the numbers of functions. silent: a bitmap of the numbers of
 * functions that are silent now; NULL: none is. */
int ip_plan_diff_make(struct ip_target *target, const struct ip_modules *modules,
		      const struct ip_selections *selections, const struct ip_area *area,
		      const uint8_t *silent, struct ip_plan_diff *ret);

/* Returns all changes in one array (malloc'ed, *ret_n of them). d->live must have been bound.
 * Returns NULL with an error. */
struct ip_change *ip_plan_diff_changes(const struct ip_plan_diff *d, size_t *ret_n);

void ip_plan_diff_clear(struct ip_plan_diff *d);

#endif
