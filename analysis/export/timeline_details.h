/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short calls of a timeline, one by one, as far as a limit of size allows. Time is divided into
 * spans that have about the same number of these calls, and each span is packed by itself: a page
 * unpacks a span when a person looks at it.
 *
 * A call belongs to the span in which it ends. A packed span is base64 of zlib's format of:
 *
 *   the sizes in bytes of three columns: sections, gaps, lengths
 *   sections  for each section: row, number of calls, from the start of its first call to the end
 *             of the span
 *   gaps      for each call but the first of a section: from the end of the call before
 *   lengths   for each call
 *   functions for each call
 *
 * Each number is a varint (7 bits a byte, the lowest first, bit 7: more follow). Times are in
 * nanoseconds; the calls of a section are of one row, in order of time.
 */
#ifndef IP_TIMELINE_DETAILS_H
#define IP_TIMELINE_DETAILS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/export/timeline.h"

struct ip_detail_column {
	uint8_t *bytes;
	size_t n, room;
};

struct ip_detail_span {
	uint64_t end;	/* ticks since the timeline's begin; the next span begins there */
	uint64_t calls; /* that end in the span */
	char *packed;	/* NULL: the limit left the span out */
	/* Private: */
	uint64_t seen; /* calls in the columns */
	struct ip_detail_column sections, gaps, lengths, functions;
};

struct ip_timeline_details {
	struct ip_detail_span *spans; /* in order of time */
	size_t nspans;
	uint64_t kept, left_out; /* calls */
	uint64_t size;		 /* bytes of all packed texts */
};

/* Packs the calls of the timeline that are only in sums. limit: how many bytes all texts may have.
 * Where not all spans fit, those that are packed are spread over the whole time. shown: by
 * function, the number that stands for it. Returns 0, or -1 with an error. */
int ip_timeline_details_collect(struct ip_timeline *timeline, struct ip_trace_reader *trace,
				const uint32_t *shown, uint64_t limit,
				struct ip_timeline_details **ret);
void ip_timeline_details_destroy(struct ip_timeline_details *details);

#endif
