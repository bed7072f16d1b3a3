/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The timeline of one run of a thread, and the single calls in it: the next call of a function,
 * and all that is known of a call.
 */
#ifndef IP_RUN_TIMELINE_H
#define IP_RUN_TIMELINE_H

#include "analysis/export/timeline.h"

struct ip_run_timeline {
	struct ip_trace_reader *trace; /* borrowed */
	const struct ip_thread_packets *run;
	struct ip_timeline *sums;
	struct ip_run_index *index;
};

/* Reads the run. Returns 0, or -1 with an error. */
int ip_run_timeline_make(struct ip_trace_reader *trace, const struct ip_thread_packets *run,
			 struct ip_run_timeline **ret);
void ip_run_timeline_destroy(struct ip_run_timeline *timeline);

/* One call, or point. Times in TSC. */
struct ip_timeline_item {
	uint64_t start, end;
	uint32_t function, depth;
	uint32_t tag; /* ordinal of the call in the run (run_index.h); IP_NO_TAG: not known */
	bool point;
	bool open; /* It goes on behind end: how long is not known. */
};

#define IP_NO_TAG UINT32_MAX

/* Finds the next call of the wanted functions (by index) that begins behind the call after (its
 * tag; IP_NO_TAG: at ts or later), or the last one before it. Returns 1; 0 where there is none; -1
 * with an error. */
int ip_timeline_next(const struct ip_run_timeline *timeline, const bool *wanted, uint64_t ts,
		     uint32_t after, bool backwards, struct ip_timeline_item *ret);

/* What else is known of a call. */
struct ip_timeline_call_details {
	uint64_t end;  /* TSC */
	uint64_t self; /* ticks */
	enum ip_frame_end how;
	uint32_t flags;	     /* IP_FRAME_... */
	char *args, *result; /* the values as dump prints them; NULL: none were recorded */
};

/* Finds the call that began at item->start, and up to its end. Sets item->tag. Returns 1; 0 where
 * there is no such call; -1 with an error. ret->args and ret->result belong to the caller. */
int ip_timeline_details(const struct ip_run_timeline *timeline, struct ip_timeline_item *item,
			struct ip_timeline_call_details *ret);

#endif
