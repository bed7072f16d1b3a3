/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what in a trace is worth a look, by one reading: which calls last long, and when the
 * slow calls of some functions ran. A second reading in the same order shows it.
 */
#ifndef IP_INTEREST_H
#define IP_INTEREST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

struct ip_interest_options {
	uint32_t tid;		  /* this thread only; 0: all threads */
	uint64_t min_duration_ns; /* calls that last at least so long; 0: all */
	const bool *around;	  /* by function: those whose slow calls are wanted; NULL: none */
	uint64_t slower_than_ns,
		/* A call that lasts longer than slower_than_ns is slow. margin_ns before and
		 * after it are shown, too. */
		margin_ns;
};

struct ip_interest_span {
	uint64_t from, to; /* TSC, both included */
};

struct ip_interest {
	/* By the ordinal of a call, from 0, in the order in which ip_merge() opens calls: */
	uint8_t *is_long, *is_slow; /* bits; NULL: not wanted */
	/* calls that have bits; calls beyond count as long and not as slow */
	uint64_t ncalls;
	struct ip_interest_span *spans; /* in order; they do not touch */
	size_t nspans;
	uint64_t nslow;
};

/* Reads the trace. Returns 0, or -1 with an error. */
int ip_interest_find(struct ip_trace_reader *trace, const struct ip_interest_options *options,
		     struct ip_interest **ret);
void ip_interest_destroy(struct ip_interest *interest);

static inline bool ip_interest_is_long(const struct ip_interest *f, uint64_t call)
{
	return !f->is_long || call >= f->ncalls || (f->is_long[call / 8] >> call % 8 & 1);
}

static inline bool ip_interest_is_slow(const struct ip_interest *f, uint64_t call)
{
	return f->is_slow && call < f->ncalls && (f->is_slow[call / 8] >> call % 8 & 1);
}

/* Returns the span that ts lies in; NULL: none. */
const struct ip_interest_span *ip_interest_span_at(const struct ip_interest *interest, uint64_t ts);

#endif
