/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is to be done so that exactly the selected sites are live, whatever is live now: the plan of
 * a session that runs already (its selection changes, libraries come).
 *
 * What is live now is read from the text: there is no record of it that could be wrong. A selected
 * site that is live stays as it is, so its function goes on recording without a gap; one that
 * somebody else has changed is left alone and counted, and the other sites of its function do not
 * go live (plan_conflicts.h).
 *
 * How to use it: ip_session_update() (update.h) does all of it for a session. By hand:
 *
 *   ip_plan_diff_make()      modules and selections as they are to be from now on; the maps are
 *                            those of ip_target_refresh()
 *   ip_values_plan(&d.live)   where values are recorded and d.live.nchanges
 *   ip_plan_bind(&d.live), ip_trace_add_plan(&d.live), ip_trace_sync()
 *   ip_plan_diff_changes()   one array for ip_patch_prepare(): a single patch writes both
 *   ip_trace_add_change()     after the stop
 */
#ifndef IP_PLAN_DIFF_H
#define IP_PLAN_DIFF_H

#include "hotpatcher/plan/plan.h"

struct ip_plan_diff {
	struct ip_plan live; /* what is to go live; functions: those alone */
	struct ip_plan idle; /* what is to go idle, both forms filled in, functions numbered */
	size_t functions;    /* that are selected, live or not */
	size_t kept;	     /* sites that are live and stay so */
	/* sites that hold something that is not ours, selected or not: left alone */
	size_t foreign;
	uint64_t first_foreign;
};

/* Neither part may have anything in it: no error. Modules that are not mapped any more are left
 * out. The area gives numbers. */
int ip_plan_diff_make(struct ip_target *target, const struct ip_modules *modules,
		      const struct ip_selections *selections, const struct ip_area *area,
		      struct ip_plan_diff *ret);

/* All changes in one array (malloc'ed), *ret_n of them; d.live must have been bound. NULL with an
 * error. */
struct ip_change *ip_plan_diff_changes(const struct ip_plan_diff *d, size_t *ret_n);

void ip_plan_diff_clear(struct ip_plan_diff *d);

#endif
