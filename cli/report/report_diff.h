/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe report --diff compares: pairs of rows, one of each trace, and the verdict on each
 * pair.
 */
#ifndef IP_CLI_REPORT_DIFF_H
#define IP_CLI_REPORT_DIFF_H

#include "analysis/profile/compare.h"
#include "cli/report/report.h"
#include "common/json.h"

enum cli_verdict {
	CLI_SLOWER,
	CLI_FASTER,
	CLI_MIXED,     /* slower or faster, and the tail went the other way */
	CLI_TAIL_UP,   /* more of its calls than before are among the slowest hundredth */
	CLI_TAIL_DOWN, /* fewer of them are */
	CLI_NEW,       /* only in the second trace */
	CLI_GONE,      /* only in the first trace */
	CLI_CALLS,     /* its calls last as long as before, but their number differs */
	CLI_SAME,      /* no difference that is certain and large enough to matter */
	CLI_FEW,       /* too few calls to decide */
	/* durations of one side are not known, or the sides were measured in different ways */
	CLI_UNTESTED,
};

/* The expected share of false differences among those that are called certain. */
#define CLI_DIFF_Q 0.05
/* A smaller share of p50 or of the mean does not matter, however certain it is. A step of the
 * histograms is 1.6 %. */
#define CLI_DIFF_MIN 0.01
/* The numbers of calls differ where their difference is at least this share of the larger
 * number. */
#define CLI_DIFF_CALLS 0.1

struct cli_pair {
	const struct cli_report_row *before, *after; /* NULL: not in that trace */
	struct ip_comparison comparison;
	bool testable;	  /* durations of both sides are known in the same way */
	double q, tail_q; /* NAN: not tested */
	enum cli_verdict verdict;
	double calls, total, self, p50, p99; /* differences, times in ns; NAN: not known */
	double key;
};

struct cli_diff {
	const struct cli_report_options *options;
	struct cli_report before, after;
	struct cli_pair *pairs;
	size_t n;
};

const char *cli_verdict_name(enum cli_verdict verdict);
/* Returns a row of the pair that exists, and the report that it belongs to. */
static inline const struct cli_report_row *cli_pair_row(const struct cli_pair *pair)
{
	return pair->after ? pair->after : pair->before;
}
static inline const struct cli_report *cli_pair_report(const struct cli_diff *d,
						       const struct cli_pair *pair)
{
	return pair->after ? &d->after : &d->before;
}

/* Returns whether there is a column of that name to sort pairs by. */
bool cli_diff_has_column(const char *name);

/* report_diff_print.c. cli_diff_table() returns 0, or -1 with an error. */
int cli_diff_table(const struct cli_diff *d);
void cli_diff_json(const struct cli_diff *d);
void cli_diff_csv(const struct cli_diff *d);

/* A warning. */
extern const char cli_diff_runs_differ[];

/* What every comparison of traces tells of each of them. events: how many were read. */
void cli_diff_header(const char *what, const struct ip_trace_reader *trace, uint64_t events);
void cli_diff_trace_json(struct ip_json *j, const char *key, const struct ip_trace_reader *trace,
			 uint64_t events);

#endif
