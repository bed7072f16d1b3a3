/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of iprobe report share: its rows, and the ways to show them.
 */
#ifndef IP_CLI_REPORT_H
#define IP_CLI_REPORT_H

#include "analysis/counts.h"
#include "analysis/names.h"
#include "analysis/stats.h"

enum cli_report_column {
	CLI_BY_CALLS,
	CLI_BY_TOTAL,
	CLI_BY_SELF,
	CLI_BY_MIN,
	CLI_BY_AVG,
	CLI_BY_P50,
	CLI_BY_P90,
	CLI_BY_P99,
	CLI_BY_P999,
	CLI_BY_MAX,
	CLI_BY_STDDEV,
	CLI_BY_THREADS,
	CLI_BY_FUNCTION,
	CLI_REPORT_COLUMNS,
};

struct cli_report_row {
	const struct ip_function_stats *stats;
	const struct ip_recording_function *function;
	struct ip_stats_summary summary;
	const char *name;		/* without arguments */
	uint64_t count;			/* calls; of a point how often it was passed */
	const struct ip_count *counted; /* NULL: it logged, and nothing else */
	bool logged;			/* its times are those of the events */
	double key;
	bool ambiguous; /* another row has the same name */
};

struct cli_report {
	struct ip_trace_reader *trace;
	struct ip_stats *stats;
	struct ip_counts *counts;
	struct ip_names *names;
	struct cli_report_row *rows;
	size_t nrows;
};

/* One row for each function that was called and is selected, sorted. 0, or -1 with an error. report_rows.c */
int cli_report_rows(struct cli_report *r, const bool *selected, enum cli_report_column column);
bool cli_report_has_times(const struct cli_report_row *row);

/* The function that a line about missing calls means. */
uint32_t cli_report_missing_function(const struct cli_report *r, const struct ip_recording_missing *m);

/* At most limit rows. report_table.c: 0, or -1 with an error; report_json.c */
int cli_report_table(const struct cli_report *r, size_t limit);
void cli_report_json(const struct cli_report *r, size_t limit);

#endif
