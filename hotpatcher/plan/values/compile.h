/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the programs of one function from what the user wants to know of it.
 */
#ifndef IP_VALUES_COMPILE_H
#define IP_VALUES_COMPILE_H

#include <stdbool.h>

#include "hotpatcher/plan/value_options.h"
#include "hotpatcher/plan/values/builder.h"
#include "hotpatcher/plan/values/point.h"
#include "hotpatcher/process/debug_info.h"

/* What came of a request so far. */
struct ip_value_outcome {
	bool matched; /* a function has its name */
	bool fits;    /* and what it asks for */
	char *why;    /* why the first one did not; owned */
	size_t unfit; /* how many did not */
};

/* A function as requests name it. */
struct ip_value_function {
	struct ip_debug_function *debug;
	const char *linker_name, *file, *module; /* as for ip_selection_match() */
};

/* Whether the requests want anything of the function. */
bool ip_value_is_wanted(const struct ip_value_options *options,
			const struct ip_value_function *function);

/* Make the program of the function's entry, and of its exits. outcomes: one for each request. Both
 * return 0, or -1 with an error: out of memory. */
int ip_value_compile_entry(const struct ip_value_options *options,
			   const struct ip_value_function *function,
			   struct ip_value_outcome *outcomes, struct ip_arguments *ret);
int ip_value_compile_exit(const struct ip_value_options *options,
			  const struct ip_value_function *function,
			  struct ip_value_outcome *outcomes, struct ip_arguments *ret);

/* Makes the program of a point. Its function is its name, without debug information. Returns 0, or
 * -1 with an error: out of memory. */
int ip_value_compile_point(const struct ip_value_options *options,
			   const struct ip_value_function *function,
			   const struct ip_value_point *point, struct ip_value_outcome *outcomes,
			   struct ip_arguments *ret);

/* Checks that each request fits a function. Returns the number of the first one that does not, or
 * -1: all do. */
int ip_value_outcomes_unfit(const struct ip_value_requests *requests,
			    const struct ip_value_outcome *outcomes);
/* Returns -1 with an error that says why a request does not fit. nearest: what ip_plan_nearest()
 * says of its function; may be NULL. */
int ip_value_outcomes_error(const struct ip_value_request *request,
			    const struct ip_value_outcome *outcome, const char *nearest);
void ip_value_outcomes_clear(struct ip_value_outcome *outcomes, size_t n);

#endif
