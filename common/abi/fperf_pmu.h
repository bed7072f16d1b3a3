/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's counters of the kernel (perf_event_open(2)), hardware events among them: the shared
 * memory of runtime/fperf_pmu.c in the target and fperf/pmu.c outside. It lies at
 * ip_fperf_header.pmu: in block 0 a struct ip_pmu_set, in others a struct ip_pmu_thread.
 *
 * Why no PAPI in the target. A hook runs wherever a function begins: within malloc, a signal
 * handler, the loader, a program with another C library or none. PAPI_start and PAPI_read take
 * locks and memory of the C library there, so they would hang or spoil what they measure. What PAPI
 * knows is names: which events of this processor a name stands for. That is asked outside, in fperf
 * (coldly, hotpatcher/fperf_papi.h), and what comes of it is numbers for perf_event_open, which
 * PAPI itself would call with the same ones. Opening and reading are plain system calls, or rdpmc,
 * which a hook may make anywhere.
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

/* What perf_event_open(2) is told of a counter. */
struct ip_pmu_counter {
	uint32_t type, exclude;
	uint64_t config, config1, config2;
};

/* All counters of a session. An event (source IP_FPERF_PMU + i) is the sum of some, each times its
 * weight. */
struct ip_pmu_set {
	uint32_t ncounters, nevents;
	/* 1: each counter by itself, so that the kernel may take turns with them, and counts are
	 * scaled; 0: all at once, or none */
	uint32_t scale;
	uint32_t reserved;
	struct ip_pmu_counter counters[IP_PMU_COUNTERS];
	struct {
		uint32_t uses; /* bits: counters */
		int32_t weights[IP_PMU_COUNTERS];
	} events[IP_FPERF_EVENTS];
};

enum ip_pmu_state {
	IP_PMU_NONE = 0,
	IP_PMU_OPENING = 1,
	IP_PMU_FAILED = 2, /* error says why: there will be none */
	IP_PMU_PAGES = 3,  /* each has a page, by which rdpmc reads it: no descriptor is kept */
	IP_PMU_GROUP = 4,  /* one descriptor reads all; the others keep theirs open */
	IP_PMU_SINGLE = 5, /* each is read by its own */
	IP_PMU_LEFT = 6,   /* its thread has ended: who takes the block closes what is here */
};

/* What the process has of a counter. */
struct ip_pmu_held {
	/* the kernel's number of it: what a descriptor must still be of before it is used; 0:
	 * nothing is held */
	uint64_t id;
	uint64_t page; /* its address; 0: it has none */
	int32_t fd;    /* -1: it has none */
	uint32_t reserved;
};

struct ip_pmu_mark {
	uint64_t value;
	uint64_t enabled, running; /* ns that it was to count, and did */
};

struct ip_pmu_thread {
	uint64_t image; /* of which process image what is held is: another exec(2) has closed it */
	uint32_t tid;
	uint32_t state;
	struct ip_pmu_held held[IP_PMU_COUNTERS];
	/* what comes before stays when the thread ends, until all is closed; what follows does
	 * not */
	int32_t error;			      /* errno of what failed, and */
	uint32_t failed;		      /* the counter */
	uint32_t generation;		      /* how often they were opened */
	uint32_t gone;			      /* how often a descriptor was not ours any more */
	uint32_t generations[IP_FPERF_DEPTH]; /* of open samples: what their marks are of */
	struct ip_pmu_mark marks[];	      /* of open samples, ncounters of each */
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
