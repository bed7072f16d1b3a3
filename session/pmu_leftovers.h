/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closes counters of the kernel that threads of a target still hold although no session counts any
 * more: counters of the session that ends, or of an fperf that was killed.
 */
#ifndef IP_PMU_LEFTOVERS_H
#define IP_PMU_LEFTOVERS_H

struct ip_area;
struct ip_target;

/* Step 2 of fperf_pmu.h, for all blocks of the last session in the area, as its header says. How
 * many were closed; -1 with an error: some are still there. */
int ip_pmu_clean(struct ip_target *target, const struct ip_area *area);

#endif
