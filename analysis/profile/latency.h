/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency histograms: how many calls of a function lasted how long, in powers of two of
 * nanoseconds, over the whole recording and over slices of it. Several peaks are several ways to do
 * the work: a cache that hits or misses, a lock that is free or held.
 *
 * Joukov, Traeger, Iyer, Wright, Zadok: Operating system profiling via latency analysis (OSprof),
 * 2006.
 */
#ifndef IP_LATENCY_H
#define IP_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Bucket 0: below 1 ns; bucket b: from 2^(b - 1) ns up to, not including, 2^b ns. */
#define IP_LATENCY_BUCKETS 65u

struct ip_latency {
	uint64_t calls[IP_LATENCY_BUCKETS];
	/* of calls that have ended, without doubtful ones, as report's min to max */
	uint64_t count;
	uint64_t until_tail;	  /* of these: they end at a tail call to where nothing is known */
	uint64_t min, max, total; /* ns; total: of these calls */
	/* [slice * IP_LATENCY_BUCKETS + bucket], by when the call began; NULL: not asked for, or
	 * none */
	uint32_t *over_time;
};

struct ip_latencies {
	struct ip_latency *functions; /* as in session->functions */
	size_t nfunctions;
	size_t nslices;
	uint64_t slice_ns;
	uint64_t events;
	/* private */
	struct ip_trace_reader *trace;
	const bool *selected;
	uint32_t tid;
	bool skip, failed;
};

/* Reads the whole trace. nslices 0: nothing over time. tid 0: all threads. 0, or -1 with an
 * error. */
int ip_latencies_collect(struct ip_trace_reader *trace, const bool *selected, size_t nslices,
			 uint32_t tid, struct ip_latencies **ret);
void ip_latencies_destroy(struct ip_latencies *latencies);

/* Bounds of a bucket in ns, the upper one not included. */
uint64_t ip_latency_from(unsigned bucket);
uint64_t ip_latency_to(unsigned bucket);

/* Which buckets are peaks: higher than both neighbours, a hundredth of all calls at least, and
 * between it and any other peak the histogram falls to a half of the lower one. */
void ip_latency_peaks(const struct ip_latency *latency, bool ret[IP_LATENCY_BUCKETS]);

#endif
