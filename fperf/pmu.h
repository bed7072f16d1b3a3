/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's counters of the kernel, seen from outside: what the hooks (runtime/fperf_pmu.c) must
 * know, and what they leave behind.
 *
 * Threads open counters by themselves, and end without closing them. What a block's thread holds is
 * noted in the block, and stays there:
 *   1. When the thread has ended, the block is cleared except for this note. The next thread that
 *      takes the block closes what it finds there.
 *   2. When the session has ended, and no hook runs any more, a borrowed thread closes all that is
 *      left (remap_thread.h): descriptors that belong to fperf's counters according to the kernel,
 *      and pages that belong to a counter according to the list of mappings. If fperf was killed,
 *      iprobe detach does this, or the next fperf.
 *   3. If no thread can be borrowed, the counters stay until the process calls exec or ends. When
 *      the thread has ended they count nothing, and cost next to nothing.
 */
#ifndef IP_PMU_H
#define IP_PMU_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/fperf_pmu.h"

struct ip_fperf;
struct ip_fperf_event;
struct ip_target;

/* Returns the number of counters that the session's events take; 0: none. */
unsigned ip_pmu_counters(const struct ip_fperf_event *const *events, unsigned n);
/* Returns the bytes that they take in each block. */
uint64_t ip_pmu_room(const struct ip_fperf_event *const *events, unsigned n);

/* Fills in what the hooks must know. sources: the member of struct ip_fperf_header; sets the
 * sources of such events. */
void ip_pmu_fill(const struct ip_fperf_event *const *events, unsigned n, bool scale,
		 struct ip_pmu_set *set, uint32_t *sources);

/* Checks whether the target's threads may open the counters, as far as this can be seen from
 * outside. Returns -1 with an error. */
int ip_pmu_check(const struct ip_target *target, const struct ip_fperf_event *const *events,
		 unsigned n);

/* Returns what an errno of perf_event_open(2) means: static text. */
const char *ip_pmu_error(int error);

#endif
