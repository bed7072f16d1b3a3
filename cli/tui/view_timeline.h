/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the source files of the timeline of iprobe tui share: what is shown of which thread
 * (view_timeline.c), and its drawing (timeline_draw.c).
 */
#ifndef IP_CLI_VIEW_TIMELINE_H
#define IP_CLI_VIEW_TIMELINE_H

#include "analysis/export/timeline_view.h"
#include "cli/tui/tui.h"

#define CLI_TIMELINE_GUTTER  4u /* columns before the bars: the depth */
#define CLI_TIMELINE_DETAILS 3u /* lines below the bars: the call under the cursor */
#define CLI_TIMELINE_HEAD    2u /* lines above the bars: the thread, the time */
#define CLI_TIMELINE_CACHE   4u

struct cli_view_timeline {
	/* threads that were looked at, the last one first */
	struct ip_run_timeline *cache[CLI_TIMELINE_CACHE];
	uint64_t from, to;		 /* TSC: what is shown */
	uint64_t cursor;		 /* TSC */
	uint32_t depth, first;		 /* of the cursor, of the row at the top */
	struct ip_timeline_view picture; /* cells NULL: there is none */
	/* The call under the cursor, where has_item is true. pinned: the user has jumped to it. */
	struct ip_timeline_item item;
	bool has_item, pinned;
	struct ip_timeline_call_details details; /* valid where has_details is true */
	bool has_details;
	bool *wanted; /* by function: what was searched for; NULL: nothing */
};

/* Returns the cell under the cursor; NULL: there is none. */
const struct ip_timeline_cell *cli_timeline_cell(const struct cli_view_timeline *v);
/* Returns the column of a time that is shown. */
size_t cli_timeline_column(const struct cli_view_timeline *v, uint64_t ts);

/* Prints the values of the call under the cursor, as one line; what does not fit is marked. */
void cli_timeline_print_values(const struct cli_view_timeline *v, FILE *out, size_t columns);

void cli_timeline_draw(struct cli_tui *tui, FILE *out, size_t lines, size_t columns);

#endif
