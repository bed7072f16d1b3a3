/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a careful session leaves out (in the shared area, abi/area.h).
 */
#ifndef IP_ABI_FILTERS_H
#define IP_ABI_FILTERS_H

#include <stdint.h>

#define IP_FILTER_THREADS 128u /* that --tid can name */
/* What a careful session leaves out (runtime/filter.c). It lies in the header's page, behind the
 * header. iprobe writes it before it opens the gate, except for the members that hooks write. */
struct ip_filters {
	uint64_t min_ticks; /* calls that are shorter leave nothing; 0: all calls are kept */
	/* calls with this many frames below them, or more, leave nothing; 0: all calls are kept */
	uint32_t depth;
	uint32_t frames;   /* 1: threads need a stack of frames */
	uint32_t callsite; /* 1: entries tell where the call came from */
	/* 1: only threads[]; 2: iprobe decides for each slot (wanted); 3: both; 0: all threads */
	uint32_t threads;
	uint32_t nrules; /* numbers below it have a rule */
	/* calls of a function with IP_RULE_START, with IP_RULE_STOP; 0: there is none */
	uint32_t start_after, stop_after;
	/* written by hooks, atomic */
	uint32_t started, stopped, start_calls, stop_calls;
	uint32_t nthreads;
	uint32_t thread[IP_FILTER_THREADS]; /* ids in the target's namespace */
};

/* The rule of one number: for sampling, to tell frames apart, and to find return addresses. */
struct ip_filter_rule {
	uint32_t every; /* one call out of this many is kept; 0: every call */
	uint32_t count; /* atomic, written by hooks: calls so far */
	/* the smallest number of the same function: its instances and parts share it */
	uint32_t group;
	/* distance from the stack pointer at the entry site to the caller's stack pointer before
	 * its call; 0: not known */
	uint16_t frame;
	uint16_t flags;
};

#define IP_RULE_START	1u /* the function is a trigger */
#define IP_RULE_STOP	2u
#define IP_RULE_INLINED 4u /* an inlined instance: its frame is that of the function around it */
#define IP_RULE_EXACT	8u /* entry and exit have the same stack pointer */
#define IP_RULE_NO_EXIT 16u
/* what is known of the caller is the site's own return address, below its stack pointer */
#define IP_RULE_SITE 32u
/* the function was not selected: it is recorded only where a call continues in it */
#define IP_RULE_SILENT 128u
/* the second number of a function: its tail exits lead to functions whose exits are live */
#define IP_RULE_JUMP 64u
/* with IP_MODE_WITHIN: what this function calls is recorded, and nothing else */
#define IP_RULE_WITHIN 256u

_Static_assert(sizeof(struct ip_filter_rule) == 16, "ABI");

#endif
