/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether there is room for switching pages: a failure in the middle of a switch must be
 * impossible, not unlikely.
 */
#ifndef IP_REMAP_LIMITS_H
#define IP_REMAP_LIMITS_H

#include <stddef.h>

#include "hotpatcher/process/target.h"

/* For that many mappings more and that many pages written. 0, or -1 with what is short, and what to
 * do. */
int ip_remap_limits_check(const struct ip_target *target, size_t mappings, size_t pages);

#endif
