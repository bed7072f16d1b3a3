/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of the packets of one run of a thread: states of the stack machine at some of them. With
 * it a reader sees a slice of time as if it had read all events before, and reads only the packets
 * of the slice and those from the checkpoint before it.
 *
 * Memory is bounded: where the states take too much, every second one is given up, and the distance
 * doubles. Files that have changed since the index was made are checked like any others; then a
 * slice ends with an error.
 */
#ifndef IP_RUN_INDEX_H
#define IP_RUN_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

/* Events between two checkpoints, at first. */
#define IP_RUN_INDEX_EVERY 131072u
/* The most bytes that the states of an index take. */
#define IP_RUN_INDEX_BYTES (32u << 20)

struct ip_run_index {
	const struct ip_trace_reader *trace; /* borrowed */
	const struct ip_thread_packets *run;
	struct ip_checkpoint *checkpoints; /* in order of time; the first is the run's begin */
	size_t n;
	size_t bytes;	 /* of the states */
	uint64_t every;	 /* events between two checkpoints */
	uint64_t events; /* of the run */
};

/* The receiver of a slice. It numbers the calls and points: *calls is their number before the first
 * event, and opened() and point() add 1. Where opened() keeps the number in frame->tag, a call has
 * the same tag in all slices. */
struct ip_slice_visitor {
	const struct ip_frames_ops *ops;
	void *context; /* for ops and open */
	uint64_t *calls;
	/* The frames that are open before the first event (end false) and behind the last one (end
	 * true), where there are any. now: TSC of the event before. NULL: not wanted. */
	void (*open)(void *context, const struct ip_frame *frames, size_t n, uint64_t now,
		     bool end);
	const bool *stop; /* Events are no longer wanted where it becomes true. NULL: all are. */
};

/* Visits all events of a run and makes its index. every: events between two checkpoints; 0:
 * IP_RUN_INDEX_EVERY. Returns 0, or -1 with an error. */
int ip_run_index_make(struct ip_trace_reader *trace, const struct ip_thread_packets *run,
		      const struct ip_slice_visitor *visitor, uint64_t every,
		      struct ip_run_index **ret);
void ip_run_index_destroy(struct ip_run_index *index);

/* Visits the events from the checkpoint before from up to the time to (TSC, included). At the end
 * of the run open frames are closed as ip_frames_finish() does. Returns 0, or -1 with an error. */
int ip_run_index_visit(const struct ip_run_index *index, uint64_t from, uint64_t to,
		       const struct ip_slice_visitor *visitor);

/* Returns how many events ip_run_index_visit() reads for a slice, at most. */
uint64_t ip_run_index_cost(const struct ip_run_index *index, uint64_t from, uint64_t to);

/* Returns the time of the checkpoint before ts, from which a visit begins; 0: the run's begin. */
uint64_t ip_run_index_before(const struct ip_run_index *index, uint64_t ts);

#endif
