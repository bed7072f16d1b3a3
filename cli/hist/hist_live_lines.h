/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the histograms of sessions that go on interval by interval: those of the calls that have
 * ended in each. A line for each function, or with --json a document for each interval.
 */
#ifndef IP_CLI_HIST_LIVE_LINES_H
#define IP_CLI_HIST_LIVE_LINES_H

#include "cli/hist/hist.h"
#include "cli/hist/hist_lines.h"

/* What an interval is compared with. All zero: nothing has been shown yet. */
struct cli_hist_live_lines {
	struct cli_hist_live_function {
		char *key; /* it may have another index in another reading */
		struct ip_profile_intervals *intervals; /* NULL: it had no calls yet */
	} * functions;					/* as in the recording */
	size_t n;
	struct cli_hist_axis axis;
	bool has_axis;
};

/* Shows the interval between the last two readings of the counts. renewed: functions have other
 * indexes than in the reading before. hist: its names, session and where the counts come from.
 * Returns 0, or -1 with an error. */
int cli_hist_live_lines_show(struct cli_hist_live_lines *lines, const struct cli_hist *hist,
			     const struct cli_hist_options *options, const bool *selected,
			     bool renewed);
void cli_hist_live_lines_clear(struct cli_hist_live_lines *lines);

#endif
