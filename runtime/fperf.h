/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of functions (common/abi/fperf.h).
 */
#ifndef RT_FPERF_H
#define RT_FPERF_H

#include "common/abi/meters.h"

/* A probe of a function with IP_DUTY_FPERF, in the thread's own block m; shared: block 0; place:
 * where in the blocks its header is. The slot's guard is held. word: the duty; number 0: a
 * trial's (fperf.c, step 3); sp: as trace_format.h has it. Where the clock is to be noted last
 * of all, or NULL. */
uint64_t *rt_fperf(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   uint32_t number, uint32_t kind, uint64_t sp);

/* What a probe tells about samples that go on in another function (fperf_chain.c). */
enum rt_fperf_pass {
	RT_FPERF_ENTRY,
	RT_FPERF_EXIT,
	RT_FPERF_TAIL_EXIT, /* which is not followed; */
	RT_FPERF_JUMP,	    /* which is */
};

/* The same for one that is only counted, or that jumps, while ip_meters.jumped says that it may
 * matter. word: the duty of the function, FPERF or COUNT. */
void rt_fperf_pass(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   enum rt_fperf_pass what, uint64_t sp);

#endif
