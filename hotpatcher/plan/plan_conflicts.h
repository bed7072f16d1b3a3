/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sites of a plan that another program has changed. They stay as they are, and so do all other
 * sites of the same function. So entries and exits stay balanced.
 */
#ifndef IP_PLAN_CONFLICTS_H
#define IP_PLAN_CONFLICTS_H

#include "hotpatcher/patch/site_state.h"
#include "hotpatcher/plan/plan.h"

struct ip_plan_conflicts {
	size_t sites;	  /* sites with other contents */
	size_t left_out;  /* sites taken out of the plan, these included */
	size_t functions; /* functions taken out */
	uint64_t address; /* of the first such site */
	char *function;	  /* the function of the first such site; malloc'ed */
	enum ip_site_state state;
};

/* Takes a function out of the plan if one of its sites holds neither its idle form nor a form that
 * iprobe writes, and adds it to *sum. The caller sets *sum to zeros before the first call, and
 * clears it. Returns -1 with an error if nothing is left of the plan, or if the text cannot be
 * read. */
int ip_plan_conflicts_leave_out(struct ip_plan *plan, const struct ip_target *target,
				struct ip_plan_conflicts *sum);

/* Takes the functions that gone marks out of the plan. Returns 0, or -1. */
int ip_plan_conflicts_take_out(struct ip_plan *plan, const bool *gone);

/* Prints one line on stderr if there were such sites. */
void ip_plan_conflicts_tell(const struct ip_plan_conflicts *foreign, pid_t pid);

void ip_plan_conflicts_clear(struct ip_plan_conflicts *foreign);
#define _cleanup_plan_conflicts_ __attribute__((cleanup(ip_plan_conflicts_clear)))

#endif
