/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread did when, in bounded memory. The longest stays of functions on the stack are
 * kept one by one; all others are summed up in slices of time. So a picture of any trace can be
 * drawn, and a stay that is long enough to be looked for by itself is exact.
 *
 * A stay is the time from a call, or from a coroutine's return to it, until its frame is closed
 * or left.
 */
#ifndef IP_TIMELINE_H
#define IP_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/run_index.h"
#include "analysis/callstack/trace.h"

#define IP_TIMELINE_DEPTHS 256u /* deeper stays are counted, not shown */
/* the most rows: those with the most time; stays of other rows are counted, not shown */
#define IP_TIMELINE_ROWS 20000u
#define IP_TIMELINE_BINS 20u /* there are at most 2 to the power of this many bins */

/* Times in TSC ticks. */
struct ip_timeline_call {
	uint64_t start, end;
	uint32_t function;
	uint32_t row;
};

/* The stays of one row in one slice of time that are not kept one by one. */
struct ip_timeline_sum {
	uint64_t covered; /* ticks that the stays cover */
	uint32_t calls;	  /* stays that began there */
	/* The function in which most of the time was spent, or nearly most (a majority vote). */
	uint32_t function;
	uint64_t vote; /* private */
};

/* One depth of one run of a thread. */
struct ip_timeline_row {
	uint32_t pid, tid;
	uint32_t process; /* index into process_list of the trace */
	uint32_t depth;
	struct ip_timeline_sum *sums; /* nslices elements; NULL: none */
};

struct ip_timeline_receiver;

struct ip_timeline {
	struct ip_timeline_call *stays; /* by row, then by start */
	size_t nstays;
	struct ip_timeline_row *rows; /* in no order */
	size_t nrows;
	size_t nslices;
	uint64_t begin, ticks; /* of the trace, or of the run; ticks >= 1 */
	uint64_t events;
	uint64_t summed; /* stays that are only in sums */
	uint64_t deeper; /* stays deeper than the last row */
	uint64_t beyond; /* stays of rows for which there was no room */
	/* Where stays were summed up: how many of them end in each bin, at most UINT32_MAX. Bin i
	 * begins at i << bin_shift ticks since begin. NULL: all stays are kept. */
	uint32_t *ends;
	size_t nbins;
	unsigned bin_shift;
	uint64_t shortest; /* ticks of the shortest stay that is kept; no stay in sums is longer */
	/* Private: */
	size_t most, nsummed;
	const bool *selected;
	uint32_t tid, run_pid, run_tid, run_process;
	uint64_t calls;
	uint32_t *row_of_depth;
	/* by depth: when the call that is on the stack came back to it, where it had been left; of
	 * others, a time that is not after their start */
	uint64_t *resumed;
	/* the slice in which a time was looked for last; slice_end 0: none */
	size_t slice;
	uint64_t slice_begin, slice_end;
	/* Rows that appeared, in the order of their appearance, including those for which there
	 * was no room. */
	size_t wanted;
	/* in the same order; NULL: there is room for all rows */
	struct ip_timeline_candidate *candidates;
	size_t ncandidates;
	bool weighing; /* The first reading: only the time of each candidate is collected. */
	/* The last reading: stays that are in sums go to the receiver. */
	const struct ip_timeline_receiver *receiver;
	void *receiver_context;
	size_t reread, *cursors; /* rows that appeared again; by row: the next stay that is kept */
	bool skip, failed;
};

/* Reads the whole trace and keeps the longest stays, at most most of them. selected: by
 * function. tid 0: all threads. nslices is a power of two; where there are many threads fewer
 * slices are made. Returns 0, or -1 with an error. */
int ip_timeline_collect(struct ip_trace_reader *trace, const bool *selected, uint32_t tid,
			size_t most, size_t nslices, struct ip_timeline **ret);

/* Receives the stays that are only in sums. */
struct ip_timeline_receiver {
	/* depth is that of the call's row. Returns 0, or -1 to end the reading. */
	int (*call)(void *context, const struct ip_timeline_call *call, uint32_t depth);
	/* The stays that follow belong to another run of a thread. Returns as call does. */
	int (*run)(void *context);
};

/* Reads the trace of the timeline again and gives each stay that is only in sums to the receiver,
 * run by run, mostly in the order of their ends. Of stays without length that ended in one row at
 * one time, some may be given in the place of others. Returns 0, or -1 with an error; where the
 * receiver returned -1, the error is the receiver's. */
int ip_timeline_read_summed(struct ip_timeline *timeline, struct ip_trace_reader *trace,
			    const struct ip_timeline_receiver *receiver, void *context);
/* The same of one run alone, with its index (run_index.h), by one reading of the run. It has at
 * most IP_TIMELINE_DEPTHS rows. The caller destroys both. */
int ip_timeline_collect_run(struct ip_trace_reader *trace, const struct ip_thread_packets *run,
			    size_t most, size_t nslices, struct ip_timeline **ret,
			    struct ip_run_index **ret_index);
void ip_timeline_destroy(struct ip_timeline *timeline);

/* Returns where slice i begins, in ticks since begin. For i = nslices it is ticks. */
uint64_t ip_timeline_slice(const struct ip_timeline *timeline, size_t i);

#endif
