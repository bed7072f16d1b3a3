/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --csv: prints the rows with all columns. The first line names the columns. A
 * value that is not known is empty.
 */
#include "cli/report/report.h"
#include "common/csv.h"

static void print_fields(struct ip_csv *csv, const struct cli_report *r,
			 const struct cli_report_row *row)
{
	struct cli_field fields[CLI_FIELDS_MAX];
	size_t n = cli_report_fields(r, row, fields);

	for (size_t i = 0; i < n; i++)
		if (!row)
			ip_csv_string(csv, fields[i].key);
		else if (fields[i].type == CLI_FIELD_STRING || fields[i].type == CLI_FIELD_VALUE)
			ip_csv_string(csv, fields[i].string);
		else if (fields[i].type == CLI_FIELD_REAL)
			ip_csv_double(csv, true, fields[i].real);
		else
			ip_csv_uint(csv, fields[i].type == CLI_FIELD_NUMBER, fields[i].number);
}

void cli_report_csv(const struct cli_report *r)
{
	struct ip_csv csv = {.out = stdout};
	const struct ip_recording *s = r->trace->session;
	const struct ip_recording_drop *drop;

	print_fields(&csv, r, NULL);
	for (size_t i = 0; i < CLI_REPORT_COLUMNS; i++)
		if (cli_report_columns[i].key)
			ip_csv_string(&csv, cli_report_columns[i].key);
	ip_csv_string(&csv, "dropped_after_ns");
	ip_csv_string(&csv, "until_tail_call");
	ip_csv_end(&csv);
	for (size_t i = 0; i < r->nrows && i < r->options->filter.limit; i++) {
		const struct cli_report_row *row = &r->rows[i];

		print_fields(&csv, r, row);
		/* percentiles of a histogram that the process made are bounds: only JSON has them
		 */
		for (size_t k = 0; k < CLI_REPORT_COLUMNS; k++)
			if (k == CLI_BY_STDDEV)
				ip_csv_double(&csv, cli_report_is_exact(row, k),
					      cli_report_value(row, k));
			else if (cli_report_columns[k].key)
				ip_csv_uint(&csv, cli_report_is_exact(row, k),
					    cli_report_value(row, k));
		drop = row->function ? ip_names_drop(s, row->function - s->functions) : NULL;
		ip_csv_uint(&csv, drop, drop ? ip_recording_since_start(s, drop->tsc) : 0);
		if (row->counted && !row->logged)
			ip_csv_uint(&csv,
				    row->counted->has_tailed && row->function &&
					    row->function->tails,
				    row->counted->tailed);
		else
			ip_csv_uint(&csv, row->logged, row->logged ? row->stats->until_tail : 0);
		ip_csv_end(&csv);
	}
}
