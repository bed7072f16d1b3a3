/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sites of a plan that record values (--args, --retval), and how they do it.
 */
#ifndef IP_VALUE_PLAN_H
#define IP_VALUE_PLAN_H

#include <stdbool.h>

#include "hotpatcher/plan/plan.h"
#include "hotpatcher/plan/value_options.h"

/* Why functions are recorded without the values that were asked for. */
enum ip_value_gap {
	IP_GAP_NO_DEBUG_INFO,	/* debug information does not have them */
	IP_GAP_OTHER_PLACEMENT, /* only placement fentry has values */
	IP_GAP_SCOPE,		/* they are scopes of the user (IPROBE_SCOPE), which have none */
	IP_GAP_TOO_MANY,	/* no room for their programs or signatures */
	IP_GAPS
};

/* What could not be done, summed over all plans so far. */
struct ip_value_gaps {
	struct ip_name_list without[IP_GAPS]; /* functions, by reason */
	/* Of a request that names several functions: those that it does not fit, for values and for
	 * conditions; and why not, of the first one ("serve: 'n': ...") */
	size_t unfit, unfit_conditions;
	char unfit_why[256], unfit_condition_why[256];
	bool checked; /* the requests have been held against the first plan */
	/* the name of a file that debug information shares and that is missing; "": none is */
	char lacks[512];
	bool no_reading; /* memory is not read: a thread is under seccomp, or may be soon */
};

/* How many functions have no values. */
size_t ip_value_gaps_count(const struct ip_value_gaps *gaps);
/* Adds those of another process. */
void ip_value_gaps_join(struct ip_value_gaps *to, const struct ip_value_gaps *from);

/* The keeper of the signatures. add() gives a text its number; 0: there is no room. */
struct ip_signatures {
	void *data;
	int64_t (*add)(void *data, const char *text);
};

/* Fills in plan->program_of and plan->programs, and passes the signatures on. It is called between
 * ip_plan_select() and ip_plan_bind(). area: of the session. Returns -1 with an error if memory ran
 * out, or if none of the selected probes can have values. */
int ip_values_plan(struct ip_plan *plan, const struct ip_target *target,
		   const struct ip_modules *modules, const struct ip_value_options *options,
		   struct ip_area *area, const struct ip_signatures *signatures,
		   struct ip_value_gaps *gaps);

/* Holds the requests against the functions of a plan, and changes nothing. Returns 0; -1 with an
 * error: one of them fits no function, or memory ran out. */
int ip_values_check(struct ip_plan *plan, const struct ip_target *target,
		    const struct ip_modules *modules, const struct ip_value_options *options);

/* Returns whether a thread of the process is under seccomp, which may kill a thread for a system
 * call, or whether the process has loaded the library by which programs put themselves under
 * seccomp. */
bool ip_values_is_confined(const struct ip_target *target);

#endif
