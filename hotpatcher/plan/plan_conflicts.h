/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites of a plan that somebody else has changed: they are left as they are, and with them all
 * sites of the same function, so that entries and exits stay balanced.
 */
#ifndef IP_PLAN_CONFLICTS_H
#define IP_PLAN_CONFLICTS_H

#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/plan/plan.h"

struct ip_plan_conflicts {
	size_t sites;	  /* that hold something else */
	size_t left_out;  /* sites of the plan that went, those included */
	size_t functions; /* that went */
	uint64_t address; /* of the first */
	char *function;	  /* its function; malloc'ed */
	enum ip_site_state state;
};

/* Takes the functions out of the plan of which a site holds something else than its idle form or
 * ours, and adds them to *sum (which starts as zeros and is cleared by the caller). -1 with an
 * error where nothing is left of the plan, or it cannot be read. */
int ip_plan_conflicts_leave_out(struct ip_plan *plan, const struct ip_target *target,
				struct ip_plan_conflicts *sum);

/* Takes out of the plan the functions that gone marks. 0 or -1. */
int ip_plan_conflicts_take_out(struct ip_plan *plan, const bool *gone);

/* One line on stderr, where there were any. */
void ip_plan_conflicts_tell(const struct ip_plan_conflicts *foreign, pid_t pid);

void ip_plan_conflicts_clear(struct ip_plan_conflicts *foreign);
#define _cleanup_plan_conflicts_ __attribute__((cleanup(ip_plan_conflicts_clear)))

#endif
