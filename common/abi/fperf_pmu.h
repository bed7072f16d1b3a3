/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's counters of the kernel (perf_event_open(2)), among them hardware events: the shared
 * memory of runtime/fperf_pmu.c in the target and fperf/pmu.c outside. It lies at
 * ip_fperf_header.pmu: a struct ip_pmu_set in block 0, a struct ip_pmu_thread in the others.
 *
 * Why the target does not use PAPI: a hook runs wherever a function begins. That may be within
 * malloc, a signal handler, the loader, or a program with another C library or none. PAPI_start and
 * PAPI_read take locks and memory of the C library. There they would hang, or change what they
 * measure. What PAPI knows is names: which events of this processor a name stands for. iprobe asks
 * that outside of the target, in fperf (cli/fperf/fperf_papi.c). The answer is numbers for
 * perf_event_open; PAPI itself would use the same numbers. Opening and reading are plain system
 * calls, or rdpmc. A hook may make them anywhere.
 */
#ifndef IP_ABI_FPERF_PMU_H
#define IP_ABI_FPERF_PMU_H

#include <stddef.h>
#include <stdint.h>

#include "common/abi/fperf.h"

#define IP_PMU_COUNTERS 8u

#define IP_PMU_NO_USER	 1u /* ip_pmu_counter.exclude */
#define IP_PMU_NO_KERNEL 2u
#define IP_PMU_NO_HV	 4u

/* What perf_event_open(2) is told about a counter. */
struct ip_pmu_counter {
	uint32_t type, exclude;
	uint64_t config, config1, config2;
};

/* All counters of a session. The value of an event (source IP_FPERF_PMU + i) is a sum over some
 * counters, each times its weight. */
struct ip_pmu_set {
	uint32_t ncounters, nevents;
	/* 1: each counter is opened by itself, so the kernel may multiplex them, and counts are
	 * scaled; 0: all count at the same time, or none does */
	uint32_t scale;
	uint32_t reserved;
	struct ip_pmu_counter counters[IP_PMU_COUNTERS];
	struct {
		uint32_t uses; /* bit mask of counters */
		int32_t weights[IP_PMU_COUNTERS];
	} events[IP_FPERF_EVENTS];
};

enum ip_pmu_state {
	IP_PMU_NONE = 0,
	IP_PMU_OPENING = 1,
	IP_PMU_FAILED = 2, /* error says why; no counter will be opened */
	IP_PMU_PAGES = 3,  /* each has a page, by which rdpmc reads it; no descriptor is kept */
	IP_PMU_GROUP = 4,  /* one descriptor reads all; the others keep their descriptors open */
	IP_PMU_SINGLE = 5, /* each is read by its own descriptor */
	/* its thread has ended: the next thread that takes the block closes what is noted here */
	IP_PMU_LEFT = 6,
};

/* What the process holds of a counter. */
struct ip_pmu_held {
	/* the kernel's number of the counter. A descriptor must still belong to this counter before
	 * it is used. 0: nothing is held */
	uint64_t id;
	uint64_t page; /* its address; 0: it has none */
	int32_t fd;    /* -1: it has none */
	uint32_t reserved;
};

struct ip_pmu_mark {
	uint64_t value;
	uint64_t enabled, running; /* ns that it was enabled, and ns that it counted */
};

struct ip_pmu_thread {
	/* the image of the process that has opened the counters: another exec(2) has closed them */
	uint64_t image;
	uint32_t tid;
	uint32_t state;
	struct ip_pmu_held held[IP_PMU_COUNTERS];
	/* the members above stay when the thread ends, until all counters are closed; those below
	 * do not */
	int32_t error;	     /* errno of the failure */
	uint32_t failed;     /* index of the counter that failed */
	uint32_t generation; /* how often the counters were opened */
	/* how often a descriptor no longer belonged to the counter */
	uint32_t gone;
	uint32_t generations[IP_FPERF_DEPTH]; /* of open samples: the generation of their marks */
	struct ip_pmu_mark marks[];	      /* of open samples, ncounters for each */
};

#define IP_PMU_KEPT offsetof(struct ip_pmu_thread, error)
#define IP_PMU_THREAD_SIZE(ncounters)                                                              \
	(sizeof(struct ip_pmu_thread) + (ncounters)*IP_FPERF_DEPTH * sizeof(struct ip_pmu_mark))
#define IP_PMU_PLACE_SIZE(ncounters)                                                               \
	(IP_PMU_THREAD_SIZE(ncounters) > sizeof(struct ip_pmu_set) ? IP_PMU_THREAD_SIZE(ncounters) \
								   : sizeof(struct ip_pmu_set))

_Static_assert(sizeof(struct ip_pmu_counter) == 32 && sizeof(struct ip_pmu_held) == 24 &&
		       sizeof(struct ip_pmu_mark) == 24 && IP_PMU_KEPT % 8 == 0 &&
		       sizeof(struct ip_pmu_thread) % 8 == 0,
	       "ABI");

#endif
