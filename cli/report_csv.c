/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --csv: prints the rows with all columns. The first line names the columns. A
 * value that is not known is empty.
 */
#include "cli/csv.h"
#include "cli/report.h"

static const struct {
	enum cli_report_column column;
	const char *key;
} columns[] = {{CLI_BY_CALLS, "calls"}, {CLI_BY_TOTAL, "total_ns"},   {CLI_BY_SELF, "self_ns"},
	       {CLI_BY_MIN, "min_ns"},	{CLI_BY_AVG, "avg_ns"},	      {CLI_BY_P50, "p50_ns"},
	       {CLI_BY_P90, "p90_ns"},	{CLI_BY_P99, "p99_ns"},	      {CLI_BY_P999, "p999_ns"},
	       {CLI_BY_MAX, "max_ns"},	{CLI_BY_STDDEV, "stddev_ns"}, {CLI_BY_THREADS, "threads"}};

#define NCOLUMNS (sizeof(columns) / sizeof(*columns))

static void print_fields(struct cli_csv *csv, const struct cli_report *r,
			 const struct cli_report_row *row)
{
	struct cli_field fields[CLI_FIELDS_MAX];
	size_t n = cli_report_fields(r, row, fields);

	for (size_t i = 0; i < n; i++)
		if (!row)
			cli_csv_string(csv, fields[i].key);
		else if (fields[i].type == CLI_FIELD_STRING)
			cli_csv_string(csv, fields[i].string);
		else
			cli_csv_uint(csv, fields[i].type == CLI_FIELD_NUMBER, fields[i].number);
}

/* Percentiles of a histogram that the process made are bounds: only JSON has them. */
static bool is_known(const struct cli_report_row *row, enum cli_report_column column)
{
	bool bound = !row->logged && (column == CLI_BY_P50 || column == CLI_BY_P90 ||
				      column == CLI_BY_P99 || column == CLI_BY_P999);

	return !bound && cli_report_is_known(row, column);
}

void cli_report_csv(const struct cli_report *r)
{
	struct cli_csv csv = {.out = stdout};
	const struct ip_recording *s = r->trace->session;
	const struct ip_recording_drop *drop;

	print_fields(&csv, r, NULL);
	for (size_t i = 0; i < NCOLUMNS; i++)
		cli_csv_string(&csv, columns[i].key);
	cli_csv_string(&csv, "dropped_after_ns");
	cli_csv_string(&csv, "until_tail_call");
	cli_csv_end(&csv);
	for (size_t i = 0; i < r->nrows && i < r->options->filter.limit; i++) {
		const struct cli_report_row *row = &r->rows[i];

		print_fields(&csv, r, row);
		for (size_t k = 0; k < NCOLUMNS; k++) {
			double value = cli_report_value(row, columns[k].column);

			if (columns[k].column == CLI_BY_STDDEV)
				cli_csv_double(&csv, is_known(row, CLI_BY_STDDEV), value);
			else
				cli_csv_uint(&csv, is_known(row, columns[k].column), value);
		}
		drop = row->function ? ip_names_drop(s, row->function - s->functions) : NULL;
		cli_csv_uint(&csv, drop, drop ? ip_recording_since_start(s, drop->tsc) : 0);
		if (row->counted && !row->logged)
			cli_csv_uint(&csv,
				     row->counted->has_tailed && row->function &&
					     row->function->tails,
				     row->counted->tailed);
		else
			cli_csv_uint(&csv, row->logged, row->logged ? row->stats->until_tail : 0);
		cli_csv_end(&csv);
	}
}
