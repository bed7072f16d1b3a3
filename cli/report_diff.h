/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe report --diff compares: pairs of rows, one of each trace, and what is said about
 * them.
 */
#ifndef IP_CLI_REPORT_DIFF_H
#define IP_CLI_REPORT_DIFF_H

#include "analysis/profile/compare.h"
#include "cli/report.h"

enum cli_verdict {
	CLI_SLOWER,
	CLI_FASTER,
	CLI_TAIL_UP,   /* more of its calls are among the slowest hundredth */
	CLI_TAIL_DOWN, /* fewer */
	CLI_NEW,       /* in the second trace alone */
	CLI_GONE,      /* in the first */
	CLI_CALLS,     /* its calls last as long, but their number differs */
	CLI_SAME,      /* no difference that is certain, and large enough to matter */
	CLI_FEW,       /* too few calls to tell */
	CLI_UNTESTED,  /* of one of them durations are not known, or not in the same way */
};

/* The share of false ones among the differences that are called certain. */
#define CLI_DIFF_Q 0.05
/* Less than that, of p50 or of the mean, matters to nobody, however certain; a step of the
 * histograms is 1.6 %. */
#define CLI_DIFF_MIN 0.01
/* Calls differ where they do so by that share of the larger number. */
#define CLI_DIFF_CALLS 0.1

struct cli_pair {
	const struct cli_report_row *before, *after; /* NULL: not there */
	struct ip_comparison comparison;
	bool testable;	  /* durations of both are known in the same way */
	double q, tail_q; /* NAN: not tested */
	enum cli_verdict verdict;
	double calls, total, self, p50, p99; /* differences, ns; NAN: not known */
	double key;
};

struct cli_diff {
	const struct cli_report_options *options;
	struct cli_report before, after;
	struct cli_pair *pairs;
	size_t n;
};

const char *cli_verdict_name(enum cli_verdict verdict);
/* A row of the pair that is there. */
static inline const struct cli_report_row *cli_pair_row(const struct cli_pair *pair)
{
	return pair->after ? pair->after : pair->before;
}
static inline const struct cli_report *cli_pair_report(const struct cli_diff *d,
						       const struct cli_pair *pair)
{
	return pair->after ? &d->after : &d->before;
}

/* Columns that pairs are sorted by; NULL: by what matters. false: there is none of that name. */
bool cli_diff_has_column(const char *name);

/* report_diff_print.c: 0, or -1 with an error */
int cli_diff_table(const struct cli_diff *d);
void cli_diff_json(const struct cli_diff *d);
void cli_diff_csv(const struct cli_diff *d);

#endif
