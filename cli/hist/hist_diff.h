/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe hist --diff compares: pairs of histograms, one of each trace, and the verdict on each
 * pair.
 */
#ifndef IP_CLI_HIST_DIFF_H
#define IP_CLI_HIST_DIFF_H

#include "analysis/profile/latency/profile_distance.h"
#include "cli/hist/hist.h"

enum cli_hist_verdict {
	CLI_HIST_DIFFERS,
	CLI_HIST_NEW,	   /* only in the second trace */
	CLI_HIST_GONE,	   /* only in the first trace */
	CLI_HIST_ALIKE,	   /* no difference that is large enough, and more than chance makes */
	CLI_HIST_UNSURE,   /* no difference, but so few calls would not show a large one */
	CLI_HIST_FEW,	   /* too few calls to compare them */
	CLI_HIST_UNTESTED, /* the sides were measured in different ways */
};

#define CLI_HIST_NONE	UINT32_MAX
#define CLI_HIST_COMMON 10u

struct cli_hist_pair {
	/* items of each trace's histograms; CLI_HIST_NONE: it has none */
	uint32_t before, after;
	/* NAN where they are not compared */
	struct ip_profile_distance distance;
	double fine; /* by finer bins; NAN: not known */
	enum cli_hist_verdict verdict;
	bool came[IP_LATENCY_BUCKETS], went[IP_LATENCY_BUCKETS]; /* peaks, by bin */
};

struct cli_hist_diff {
	const struct cli_hist_options *options;
	struct cli_hist_trace before, after;
	struct cli_hist_pair *pairs; /* what differs most first */
	size_t n;
	/* of the shifts of all pairs that were compared; NAN: there are fewer than CLI_HIST_COMMON
	 */
	double median_shift;
};

const char *cli_hist_verdict_name(enum cli_hist_verdict verdict);

/* hist_diff_print.c. cli_hist_diff_text() returns 0, or -1 with an error. */
int cli_hist_diff_text(const struct cli_hist_diff *diff);
void cli_hist_diff_json(const struct cli_hist_diff *diff);

#endif
