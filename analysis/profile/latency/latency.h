/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latency histograms: how many calls of a function lasted how long, in powers of two of
 * nanoseconds, over the whole recording and over slices of it. Several peaks mean that the
 * function does its work in several ways: a cache that hits or misses, a lock that is free or
 * held.
 *
 * Joukov, Traeger, Iyer, Wright, Zadok: Operating system profiling via latency analysis
 * (OSprof), 2006.
 */
#ifndef IP_LATENCY_H
#define IP_LATENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/profile/groups.h"
#include "analysis/profile/histogram.h"
#include "analysis/profile/latency/latency_slices.h"
#include "analysis/read/value_match.h"

/* Bucket 0 holds durations below 1 ns. Bucket b holds those from 2^(b - 1) ns up to, but not
 * including, 2^b ns. */
#define IP_LATENCY_BUCKETS 65u

/* Bytes that calls over time may take. */
#define IP_LATENCY_OVER_TIME_MAX (1ull << 30)

struct ip_latency_options {
	const bool *selected; /* by function */
	uint32_t tid;	      /* 0: all threads */
	struct ip_latency_slices slices;
	/* Durations are kept in ns, for ip_profile_fine_distance() to those of another clock.
	 * Otherwise by value only, and in ticks, for percentiles. */
	bool durations;
	/* these calls only: as ip_value_filter_visit() takes them */
	const struct ip_value_matches *matches;
};

struct ip_latency {
	uint64_t calls[IP_LATENCY_BUCKETS];
	/* Calls that have ended and are not doubtful: the calls of min to max in report. */
	uint64_t count;
	/* of these: calls whose time ends at a tail call to a function without events */
	uint64_t until_tail;
	uint64_t min, max, total; /* of these calls, in ticks */
	/* By [slice * IP_LATENCY_BUCKETS + bucket], where slice is the slice in which the call
	 * began. NULL: not wanted, or no calls. */
	uint32_t *over_time;
	struct ip_histogram *durations; /* of these calls; NULL: not wanted, or no calls */
};

struct ip_latencies {
	struct ip_latency *functions; /* as in session->functions; by value as in groups->groups */
	size_t nfunctions;
	struct ip_groups *groups; /* NULL: not by value */
	struct ip_latency_slices slices;
	const struct ip_value_matches *matches;
	uint64_t events;
	/* Private: */
	struct ip_trace_reader *trace;
	const bool *selected;
	uint32_t tid;
	bool durations;
	bool skip, failed, too_large;
	uint64_t bytes; /* of calls over time */
	const struct ip_thread_packets *thread;
	const uint64_t *payload; /* that came with the current event */
	size_t room;		 /* size of functions, by value */
};

/* Reads the whole trace. Returns 0, or -1 with an error: calls over time take more than
 * IP_LATENCY_OVER_TIME_MAX, too. */
int ip_latencies_collect(struct ip_trace_reader *trace, const struct ip_latency_options *options,
			 struct ip_latencies **ret);
/* Does the same for each value of a function (NAME or NAME/log2). Where there are too many values,
 * those with the largest total have groups. */
int ip_latencies_collect_by_value(struct ip_trace_reader *trace,
				  const struct ip_latency_options *options, const char *value,
				  struct ip_latencies **ret);
void ip_latencies_destroy(struct ip_latencies *latencies);

/* Return the bounds of a bucket in ns: it begins at ip_latency_from() and ends before
 * ip_latency_to(). */
uint64_t ip_latency_from(unsigned bucket);
uint64_t ip_latency_to(unsigned bucket);

/* Finds the peaks. A bucket is a peak where it is higher than both neighbours and has at least a
 * hundredth of all calls, and where between it and any other peak the histogram falls to half of
 * the lower peak. */
void ip_latency_peaks(const struct ip_latency *latency, bool ret[IP_LATENCY_BUCKETS]);

#endif
