/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of the kernel, read in a hook. The fperf tool uses this file too (fperf self-test): it
 * needs nothing of the runtime but memory.
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
		/* One bit an event. missing: the event was not counted all the time, and has no
		 * value. scaled: it has an estimate. */
		scaled;
};

/* Whether the counters of this thread can be read. Opens them if they are not open yet. tid: the id
 * of this thread. */
int rt_pmu_ready(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t tid);

void rt_pmu_read(const struct ip_pmu_set *set, struct ip_pmu_thread *t, struct rt_pmu_reading *ret);

/* rt_pmu_note() stores a reading for the open sample frame; rt_pmu_since() computes what was
 * counted since then. */
void rt_pmu_note(const struct ip_pmu_set *set, struct ip_pmu_thread *t, uint32_t frame,
		 const struct rt_pmu_reading *reading);
void rt_pmu_since(const struct ip_pmu_set *set, const struct ip_pmu_thread *t, uint32_t frame,
		  const struct rt_pmu_reading *now, struct rt_pmu_values *ret);

/* rt_pmu_note_page(): the page of a counter has been mapped. Returns 0 if there is no room to note
 * it. rt_pmu_forget_page(): the page is about to be unmapped. Returns 0 if it is no noted page.
 * Both return 1 otherwise. */
int rt_pmu_note_page(uint64_t page);
int rt_pmu_forget_page(uint64_t page);

/* Closes all descriptors and mappings that the thread holds and that still belong to its
 * counters. */
void rt_pmu_close(struct ip_pmu_thread *t);

#endif
