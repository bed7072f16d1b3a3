/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of a recording (common/trace/kernel_format.h): which there are, when the next one is
 * due, and what had come before each. They are files of the trace, whose numbers somebody else
 * chooses, or the newest ones are kept in memory (kernel_segments.h).
 *
 * The thread that records cuts. Others may keep, and write those in memory to a trace.
 */
#ifndef IP_RECORDED_SEGMENTS_H
#define IP_RECORDED_SEGMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trace/trace_segments.h"

struct ip_kernel_options;
struct ip_kernel_segments;
struct ip_kernel_stats;

/* What had come before a segment. */
struct ip_segment_begin {
	uint64_t events, lost;
};

struct ip_recorded_segments {
	bool any;			 /* there are some */
	struct ip_kernel_segments *kept; /* they are in memory; NULL: they are in files */
	/* atomic: the segments that there are to be, the newest and the oldest (kept NULL) */
	uint32_t wanted, wanted_first;
	uint32_t newest, first; /* that there are */
	uint64_t room;		/* for what is in memory, when it is written at the end */
	uint64_t written;	/* of it */
	struct ip_segment_begin begins[IP_TRACE_SEGMENTS_ROOM]; /* by number mod their number */
};

/* What a recorder does for a cut. Each returns 0, or -1 with an error. */
struct ip_segment_ops {
	/* what is gathered becomes part of the segment that ends. For those in memory alone */
	int (*flush)(void *context);
	/* Begins a segment, of all streams. *ret: what had come before it */
	int (*begin)(void *context, uint32_t number, struct ip_segment_begin *ret);
	/* removes the files of a segment; NULL: there are none */
	void (*remove)(void *context, uint32_t number);
	void *context;
};

/* Returns 0, or -1 with an error: out of memory. */
int ip_recorded_segments_init(struct ip_recorded_segments *segments,
			      const struct ip_kernel_options *options);
/* Nobody may be writing. */
void ip_recorded_segments_clear(struct ip_recorded_segments *segments);

/* Begins the next segment where one is due, and removes the oldest ones. Returns 1 where one was
 * begun; 0; -1 with an error. */
int ip_recorded_segments_cut(struct ip_recorded_segments *segments,
			     const struct ip_segment_ops *ops);

/* As ip_kernel_recorder_keep(). */
void ip_recorded_segments_keep(struct ip_recorded_segments *segments, uint32_t first,
			       uint32_t newest);

/* At the end: writes what is in memory into the directory of the trace. Returns 0, or -1 with an
 * error and errno. */
int ip_recorded_segments_write(struct ip_recorded_segments *segments, int trace);

/* What of the statistics was dropped with its segments. */
void ip_recorded_segments_count(const struct ip_recorded_segments *segments,
				struct ip_kernel_stats *stats);

/* Removes a file of a segment. One that stays is older than the oldest segment: readers pass over
 * it. */
void ip_recorded_segments_remove(int dir, const char *name, uint32_t number);

#endif
