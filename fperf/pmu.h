/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's counters of the kernel, seen from outside: what the hooks (runtime/fperf_pmu.c) are told,
 * and what they leave behind.
 *
 * Threads open counters by themselves, and end without closing them. What a block's thread holds is
 * noted in the block, and stays there:
 *   1. When the thread has ended the block is cleared, but for that; the next thread that takes it
 *      closes what it finds.
 *   2. When the session has ended, and no hook is at work any more, a borrowed thread closes all
 *      that is left (remap_thread.h): descriptors that the kernel says are of our counters, and
 *      pages that the list of mappings says are of a counter. Where fperf was killed, iprobe detach
 *      does it, or the next fperf.
 *   3. Where no thread can be borrowed they stay until the process execs or ends; they count and
 *      cost nothing worth telling when the thread has ended.
 */
#ifndef IP_PMU_H
#define IP_PMU_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/fperf_pmu.h"

struct ip_fperf;
struct ip_fperf_event;
struct ip_target;

/* Counters that the session's events take; 0: none. */
unsigned ip_pmu_counters(const struct ip_fperf_event *const *events, unsigned n);
/* Bytes that they take in each block. */
uint64_t ip_pmu_room(const struct ip_fperf_event *const *events, unsigned n);

/* What hooks have to know. sources: of struct ip_fperf_header, those of such events are set. */
void ip_pmu_fill(const struct ip_fperf_event *const *events, unsigned n, bool scale,
		 struct ip_pmu_set *set, uint32_t *sources);

/* Whether its threads may open them, by what can be seen from outside. -1 with an error. */
int ip_pmu_check(const struct ip_target *target, const struct ip_fperf_event *const *events,
		 unsigned n);

/* What may be wrong with perf_event_open(2); static text. */
const char *ip_pmu_error(int error);

#endif
