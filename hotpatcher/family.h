/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that a target has forked: they share its area, are silent, and carry copies of its live
 * sites.
 */
#ifndef IP_FAMILY_H
#define IP_FAMILY_H

#include "hotpatcher/area.h"
#include "hotpatcher/target.h"

/* Puts the live sites of every process but pid that has the area mapped back. A line on stderr for each that
 * had some; one that may not be traced is named there too, it is no failure. */
void ip_family_restore(const struct ip_area *area, pid_t pid, uint64_t deadline_ns);

#endif
