/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of latencies as lines of a heat map: one line for each interval of time, durations from
 * left to right. A darker cell has more calls.
 */
#ifndef IP_CLI_HIST_LINES_H
#define IP_CLI_HIST_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/profile/latency/latency.h"
#include "analysis/profile/latency/profile_intervals.h"
#include "common/json.h"

/* Which durations the lines show. from: lower bounds of the bins in ns. */
struct cli_hist_axis {
	uint64_t from[IP_LATENCY_BUCKETS];
	unsigned first, last; /* bins that are shown */
	unsigned cell;	      /* columns of a bin */
	unsigned decimals;    /* of the times in front, which are in seconds */
};

/* One interval. */
struct cli_hist_line {
	uint64_t begin_ns;
	const uint64_t *calls;	       /* by bin */
	uint64_t n;		       /* all of them */
	struct ip_profile_distance to; /* from the lines before; NAN: not compared */
	enum ip_profile_verdict verdict;
};

/* Returns the shade of a cell with so many calls: each is for four times as many as the one
 * before. */
char cli_hist_shade(uint64_t calls);
/* Prints what shades stand for, with so many columns in front. */
void cli_hist_print_shades(int indent);

/* Chooses the width of cells for what room there is on the terminal, beside others more columns
 * than those of a line, and decimals of the times for intervals of a length. */
void cli_hist_axis_fit(struct cli_hist_axis *axis, uint64_t interval_ns, unsigned others);
void cli_hist_print_axis(const struct cli_hist_axis *axis);

/* Makes a line of the calls of an interval, and compares it with those before. */
void cli_hist_line_make(struct ip_profile_intervals *intervals, uint64_t begin_ns,
			const uint64_t *calls, struct cli_hist_line *ret);
/* The line has no newline. calls that are off the axis are not shown. */
void cli_hist_print_line(const struct cli_hist_axis *axis, const struct cli_hist_line *line);
/* Says what the columns mean. */
void cli_hist_print_line_note(void);

/* Writes "distance_bins", "by_chance_bins", "changed" of an interval. */
void cli_hist_line_json(struct ip_json *j, const struct cli_hist_line *line);

#endif
