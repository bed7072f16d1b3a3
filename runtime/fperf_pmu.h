/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the kernel, read in a hook. fperf itself uses this, too (fperf self-test): it needs
 * nothing of the runtime but memory.
 */
#ifndef RT_FPERF_PMU_H
#define RT_FPERF_PMU_H

#include "common/abi/fperf_pmu.h"

struct rt_pmu_reading {
	uint32_t generation; /* 0: it could not be read */
	uint32_t ncounters;
	struct ip_pmu_mark marks[IP_PMU_COUNTERS];
};

struct rt_pmu_values {
	uint64_t value[IP_FPERF_EVENTS];
	uint32_t missing,
		/* bits: events that were not counted all the time, and have no value; that have an
		 * estimate */
		scaled;
};

/* Whether counters of this thread, which is tid, can be read: opens them where they are not yet. */
int rt_pmu_ready(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t tid);

void rt_pmu_read(const struct ip_pmu_set *set, struct ip_pmu_thread *t, struct rt_pmu_reading *ret);

/* Remembers a reading for the open sample frame, and what came since. */
void rt_pmu_note(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t frame,
		 const struct rt_pmu_reading *reading);
void rt_pmu_since(const struct ip_pmu_set *set, const struct ip_pmu_thread *t, uint32_t frame,
		  const struct rt_pmu_reading *now, struct rt_pmu_values *ret);

/* A page of a counter has been mapped; is about to be unmapped. 1; 0: there is no room to note it;
 * it is none. */
int rt_pmu_note_page(uint64_t page);
int rt_pmu_forget_page(uint64_t page);

/* Closes all that is held and still ours. */
void rt_pmu_close(struct ip_pmu_thread *t);

#endif
