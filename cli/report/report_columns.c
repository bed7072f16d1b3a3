/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of iprobe report: what each is called, and its value in a row. Options, table, JSON
 * and CSV go through this list, so a column that stands here is in all of them.
 */
#include <stddef.h>

#include "cli/report/report.h"

#define FIGURE(member) offsetof(struct ip_stats_summary, member)

const struct cli_column cli_report_columns[CLI_REPORT_COLUMNS] = {
	[CLI_BY_CALLS] = {.name = "calls", .key = "calls"},
	[CLI_BY_TOTAL] = {.name = "total", .key = "total_ns", .figure = FIGURE(total)},
	[CLI_BY_SELF] = {.name = "self", .key = "self_ns", .figure = FIGURE(self)},
	[CLI_BY_MIN] = {.name = "min", .key = "min_ns", .figure = FIGURE(min)},
	[CLI_BY_AVG] = {.name = "avg", .key = "avg_ns", .figure = FIGURE(avg)},
	[CLI_BY_P50] = {"p50", "p50_ns", "p50_bounds_ns", 0.5, FIGURE(p50)},
	[CLI_BY_P90] = {"p90", "p90_ns", "p90_bounds_ns", 0.9, FIGURE(p90)},
	[CLI_BY_P99] = {"p99", "p99_ns", "p99_bounds_ns", 0.99, FIGURE(p99)},
	[CLI_BY_P999] = {"p99.9", "p999_ns", "p999_bounds_ns", 0.999, FIGURE(p999)},
	[CLI_BY_MAX] = {.name = "max", .key = "max_ns", .figure = FIGURE(max)},
	[CLI_BY_STDDEV] = {.name = "stddev", .key = "stddev_ns"},
	[CLI_BY_THREADS] = {.name = "threads", .key = "threads"},
	[CLI_BY_FUNCTION] = {.name = "function"},
};

uint64_t *cli_report_figure(struct ip_stats_summary *summary, enum cli_report_column column)
{
	return (uint64_t *)((char *)summary + cli_report_columns[column].figure);
}

double cli_report_value(const struct cli_report_row *row, enum cli_report_column column)
{
	struct ip_stats_summary summary = row->summary;

	switch (column) {
	case CLI_BY_CALLS:
		return row->count;
	case CLI_BY_STDDEV:
		return summary.stddev;
	case CLI_BY_THREADS:
		return row->stats->threads;
	case CLI_BY_FUNCTION:
		return 0;
	default:
		return *cli_report_figure(&summary, column);
	}
}

bool cli_report_has_times(const struct cli_report_row *row)
{
	return row->logged ? row->stats->calls || row->stats->earlier
			   : row->counted && row->counted->ended;
}

bool cli_report_is_known(const struct cli_report_row *row, enum cli_report_column column)
{
	const struct ip_histogram *h = &row->stats->histogram;

	if (column == CLI_BY_CALLS)
		return true;
	if (column == CLI_BY_THREADS)
		return row->logged;
	if (!cli_report_has_times(row))
		return false;
	if (!row->logged)
		return column == CLI_BY_SELF ? row->counted->has_self : column != CLI_BY_STDDEV;
	/* the other columns are about calls that have ended */
	return column == CLI_BY_TOTAL || column == CLI_BY_SELF || h->count || h->dropped;
}

bool cli_report_is_exact(const struct cli_report_row *row, enum cli_report_column column)
{
	return (row->logged || !cli_report_columns[column].share) &&
	       cli_report_is_known(row, column);
}
