/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a careful session leaves out (in the shared area, abi/area.h).
 */
#ifndef IP_ABI_FILTERS_H
#define IP_ABI_FILTERS_H

#include <stdint.h>

#define IP_FILTER_THREADS 128u /* that --tid can name */
/* What a careful session leaves out (runtime/filter.c). Lies behind the header, in its page;
 * written before the gate opens, but for what is said to be the hooks'. */
struct ip_filters {
	uint64_t min_ticks; /* shorter calls leave nothing; 0: all are kept */
	uint32_t depth;	   /* calls with as many frames below them leave nothing; 0: all are kept */
	uint32_t frames;   /* 1: threads need a stack of frames */
	uint32_t callsite; /* 1: entries tell where the call comes from */
	/* 1: threads[] alone; 2: iprobe says of each slot (wanted); 3: both; 0: all */
	uint32_t threads;
	uint32_t nrules;		  /* numbers below it have a rule */
	uint32_t start_after, stop_after; /* calls of a function with such a rule; 0: none */
	/* the hooks', atomic */
	uint32_t started, stopped, start_calls, stop_calls;
	uint32_t nthreads;
	uint32_t thread[IP_FILTER_THREADS]; /* ids as the target names them */
};

/* Of one number; for sampling, for telling frames apart, and to find return addresses. */
struct ip_rule {
	uint32_t every; /* one call in so many is kept; 0: each */
	uint32_t count; /* atomic, the hooks': calls so far */
	uint32_t group; /* the least number of the same function: instances and parts */
	/* from the stack pointer at the entry site up to the caller's before its call; 0: not
	 * known */
	uint16_t frame;
	uint16_t flags;
};

#define IP_RULE_START	1u /* trigger */
#define IP_RULE_STOP	2u
#define IP_RULE_INLINED 4u /* its frame is its host's */
#define IP_RULE_EXACT	8u /* entry and exit have the same stack pointer */
#define IP_RULE_NO_EXIT 16u
#define IP_RULE_SITE                                                                               \
	32u /* the site's own return address, below its stack pointer, is what is known of the     \
	       caller */
#define IP_RULE_SILENT 128u /* it was not selected: recorded only where a call goes on in it */
/* second number of a function: its tail exits lead on to where exits are live */
#define IP_RULE_JUMP 64u

_Static_assert(sizeof(struct ip_rule) == 16, "ABI");

#endif
