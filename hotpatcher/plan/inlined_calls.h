/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds selected functions of which calls have no probe, since the compiler put the function's code
 * into its callers: placement fentry leaves no site there.
 */
#ifndef IP_INLINED_CALLS_H
#define IP_INLINED_CALLS_H

#include "hotpatcher/plan/plan.h"

/* Returns how many of the selected functions have such calls, by their debug information. *ret_all:
 * the number of functions that were looked up. name: room for the name of the first of them, as the
 * linker has it. 0 also where the target has ended, where there is no debug information, or where
 * there are too many functions to look them all up. */
size_t ip_plan_inlined(const struct ip_target *target, const struct ip_modules *modules,
		       const struct ip_selections *selections, size_t *ret_all, char *name,
		       size_t size);

#endif
