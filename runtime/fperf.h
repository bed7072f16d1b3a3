/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters of functions (common/abi/fperf.h).
 */
#ifndef RT_FPERF_H
#define RT_FPERF_H

#include "common/abi/meters.h"

/* Does the work of a probe whose function has IP_DUTY_FPERF. The caller holds the slot's guard. m:
 * the thread's own block; shared: block 0; place: the offset of FPerf's header in the blocks; word:
 * the word in duties[]; number: 0 for a trial (fperf.c, step 3); sp: as in trace_format.h. Returns
 * the address at which the caller must store the clock as its last step, or NULL. */
uint64_t *rt_fperf(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   uint32_t number, uint32_t kind, uint64_t sp);

/* What a probe means for samples that continue in another function (fperf_chain.c). */
enum rt_fperf_pass {
	RT_FPERF_ENTRY,
	RT_FPERF_EXIT,
	RT_FPERF_TAIL_EXIT, /* a tail exit that is not followed */
	RT_FPERF_JUMP,	    /* a tail exit that is followed */
};

/* Does the work of a probe whose function is only counted, or jumps, while ip_meters.jumped says
 * that this may matter. word: the function's word in duties[], FPERF or COUNT. The other parameters
 * are as for rt_fperf(). */
void rt_fperf_pass(struct ip_meters *m, struct ip_meters *shared, uint32_t place, uint32_t word,
		   enum rt_fperf_pass what, uint64_t sp);

#endif
