/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether mappings and memory suffice for switching pages: a failure in the middle of a
 * switch must be impossible, not just unlikely.
 */
#ifndef IP_REMAP_LIMITS_H
#define IP_REMAP_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

#include "hotpatcher/process/target.h"

/* Checks for this many more mappings and this many written pages. 0, or -1 with a reason that says
 * what is short, and what to do. */
int ip_remap_limits_check(const struct ip_target *target, size_t mappings, size_t pages);

/* Whether this kernel moves the pages of a file's mapping and leaves the mapping (Linux 5.13 does):
 * tried at a page of our own. What cannot be tried counts as a yes. */
bool ip_remap_limits_kernel_can(void);

#endif
