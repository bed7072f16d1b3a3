/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of a trace: how long the calls of F0 took, and what those of some durations have
 * called. Left out are calls that had not ended, that began before the recording, during which
 * events were lost, or in which a coroutine was left and resumed.
 */
#ifndef IP_DARC_READ_OPERATIONS_H
#define IP_DARC_READ_OPERATIONS_H

#include "analysis/callstack/trace.h"
#include "analysis/darc/handovers.h"
#include "analysis/darc/latency_peaks.h"
#include "analysis/darc/operations.h"
#include "analysis/profile/histogram.h"
#include "analysis/read/symbolize.h"
#include "analysis/wait/trace_waits.h"

struct ip_darc_latencies {
	struct ip_peak_bins bins;
	struct ip_histogram durations; /* ns */
	uint64_t events;
	uint64_t left_out;
};

/* Reads the calls of a function. tid: of this thread only; 0: of all. since: as in
 * ip_darc_read_options. The caller clears *ret in any
 * case. Returns 0, or -1 with an error. */
int ip_darc_latencies_read(struct ip_trace_reader *trace, uint32_t function, uint32_t tid,
			   uint64_t since, struct ip_darc_latencies *ret);
void ip_darc_latencies_clear(struct ip_darc_latencies *latencies);
/* How many calls have a duration from one on, and below another, exact to 0.8 % of these. */
uint64_t ip_darc_latencies_between(const struct ip_darc_latencies *latencies, uint64_t from_ns,
				   uint64_t to_ns);

/* A duration that the share (0..1) of all calls does not exceed, or somewhat less: no call that
 * lasts as long is below it. */
uint64_t ip_darc_latencies_percentile(const struct ip_darc_latencies *latencies, double share);

/* Some operations that are wanted: by duration, and at most so many, spread evenly over all; the
 * first ones where it is not known how many there are. */
struct ip_darc_range {
	uint64_t from_ns, to_ns; /* to_ns: not included */
	uint64_t count;		 /* how many there are, about; 0: not known */
	size_t most;
	uint64_t seen;			      /* how many there were */
	struct ip_darc_operations operations; /* those of them that were taken */
};

struct ip_darc_read_options {
	uint32_t function, tid; /* tid 0: all threads */
	uint32_t depth;
	bool own;    /* ip_darc_operation.own is wanted */
	bool plain;  /* return addresses tell no nodes apart */
	bool values; /* call_ended wants what came with the calls */
	/* of the trace, with its interrupts: time in which others had the CPUs of threads that
	 * could have run is told apart; NULL: not known */
	const struct ip_trace_waits *waits;
	/* Operations that began before are left out, and so is the first one of each thread behind
	 * it: probes have changed. 0: none are. */
	uint64_t since;
	/* what operations waited for in other threads; NULL: nothing is known */
	const struct ip_handovers *handovers;
	/* tells of return addresses whether calls are made by the function around them; NULL: all
	 * of these functions were recorded */
	struct ip_symbolizer *places;
	/* as in ip_darc_builder_options; it may end the reading by an error: -1 */
	int (*call_ended)(void *context, const struct ip_darc_call_end *call);
	void *context;
};

/* Reads them. ftree: that of the function. An operation is of the first range that has its
 * duration. Left out is, too, what the states do not cover. *ret_seen: how many there were of
 * whatever duration. The caller clears the ranges' operations in any case. Returns 0, or -1 with
 * an error. */
int ip_darc_operations_read(struct ip_trace_reader *trace,
			    const struct ip_darc_read_options *options, struct ip_ftree *ftree,
			    struct ip_darc_range *ranges, size_t nranges, uint64_t *ret_seen);

#endif
