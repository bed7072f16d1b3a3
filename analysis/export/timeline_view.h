/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A picture of what one run of a thread did in a slice of time: cells in rows by depth and columns
 * by time, and the single calls in it.
 *
 * A slice with few events is read from the trace: all of its calls are exact. Of one with more the
 * timeline of the whole run tells (timeline.h): its long calls are exact, its short ones are sums.
 * So the time that a picture takes does not depend on the size of the trace.
 */
#ifndef IP_TIMELINE_VIEW_H
#define IP_TIMELINE_VIEW_H

#include "analysis/export/run_timeline.h"

/* A slice with at most so many events is read from the trace. */
#define IP_TIMELINE_VIEW_EVENTS 2000000u

/* What is in a column of a row. */
struct ip_timeline_cell {
	struct ip_timeline_item longest;
	uint64_t covered; /* ticks of the column that calls cover */
	uint64_t calls;	  /* calls that touch the column; 0: the cell is empty */
	bool summed;	  /* Some calls are known as a sum only: longest is about where most is. */
};

struct ip_timeline_view {
	uint64_t from, to; /* TSC; to is not included */
	size_t columns;
	uint32_t first, rows;		/* rows are depths from first on */
	struct ip_timeline_cell *cells; /* by row, then by column */
	bool exact;			/* the slice was read from the trace */
	uint64_t events;		/* that were read for it */
	uint32_t deepest;		/* depths that the slice has */
};

/* Makes the picture of [from, to). ret->cells belongs to the caller. Returns 0, or -1 with an
 * error. */
int ip_timeline_view_make(const struct ip_run_timeline *timeline, uint64_t from, uint64_t to,
			  size_t columns, uint32_t first, uint32_t rows,
			  struct ip_timeline_view *ret);

/* Returns where a column begins. */
uint64_t ip_timeline_view_time(const struct ip_timeline_view *view, size_t column);

#endif
