/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts the rows of iprobe report.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/report/report.h"

static int compare_strings(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int by_name(const void *a, const void *b)
{
	const struct cli_report_row *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	const struct ip_value_key *a_value = x->group ? x->group->value : NULL;

	if (!order && x->function && y->function)
		order = strcmp(x->function->linker_name, y->function->linker_name);
	if (!order)
		order = compare_strings(x->caller, y->caller);
	if (!order && x->function != y->function)
		order = x->function > y->function ? 1 : -1;
	if (!order && a_value)
		order = ip_value_key_compare(a_value, y->group->value);
	return order ? order : (x->stats > y->stats) - (x->stats < y->stats);
}

/* Sorts rows by their values: numbers first, the largest before all, as other columns are; then
 * texts from A on, as names are; then rows without a value. */
static int by_value(const void *a, const void *b)
{
	const struct cli_report_row *x = a, *y = b;
	const struct ip_value_key *x_key = x->group->value, *y_key = y->group->value;
	int order = ip_value_key_compare(x_key, y_key);
	double from, to;

	if (ip_value_key_bounds(x_key, &from, &to) && ip_value_key_bounds(y_key, &from, &to))
		order = -order;
	return order ? order : by_name(a, b);
}

/* Sorts the largest first, then the row with more calls (functions that were only counted have
 * no time). Equal rows are always in the same order. */
static int by_key(const void *a, const void *b)
{
	const struct cli_report_row *x = a, *y = b;
	uint64_t x_calls = cli_report_value(x, CLI_BY_CALLS),
		 y_calls = cli_report_value(y, CLI_BY_CALLS);

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	if (x_calls != y_calls)
		return x_calls < y_calls ? 1 : -1;
	return by_name(a, b);
}

/* Rows are sorted by name. Marks all rows of a name that belong to several functions. */
static void mark_ambiguous(struct cli_report *r)
{
	for (size_t i = 0, end; i < r->nrows; i = end) {
		bool differ = false;

		for (end = i + 1; end < r->nrows && !strcmp(r->rows[end].name, r->rows[i].name);
		     end++)
			differ |= r->rows[end].function != r->rows[i].function;
		for (size_t k = i; k < end; k++)
			r->rows[k].ambiguous = differ;
	}
}

void cli_report_sort(struct cli_report *r, enum cli_report_column by)
{
	if (!r->nrows)
		return;
	for (size_t i = 0; i < r->nrows; i++) {
		struct cli_report_row *row = &r->rows[i];

		row->open_ns = ip_recording_ns(r->trace->session, row->stats->longest_unfinished);
		/* where none has finished, total tells of it */
		if (!row->logged || !row->stats->histogram.count ||
		    row->open_ns <= row->summary.max)
			row->open_ns = 0;
		row->key =
			by == CLI_BY_MAX && row->open_ns ? row->open_ns : cli_report_value(row, by);
	}
	qsort(r->rows, r->nrows, sizeof(*r->rows), by_name);
	mark_ambiguous(r);
	if (by != CLI_BY_FUNCTION)
		qsort(r->rows, r->nrows, sizeof(*r->rows), by_key);
}

void cli_report_sort_rows(struct cli_report *r)
{
	const char *column = r->options->sort ? r->options->sort : "total";
	enum cli_report_column by = 0;

	if (!strcmp(column, CLI_SORT_VALUE)) {
		qsort(r->rows, r->nrows, sizeof(*r->rows), by_name);
		mark_ambiguous(r);
		qsort(r->rows, r->nrows, sizeof(*r->rows), by_value);
		return;
	}
	while (strcmp(cli_report_columns[by].name, column))
		by++;
	cli_report_sort(r, by);
}

enum ip_value_order cli_report_value_order(const struct cli_report_options *o)
{
	static const struct {
		const char *column;
		enum ip_value_order order;
	} orders[] = {{"calls", IP_VALUES_BY_CALLS}, {"threads", IP_VALUES_BY_CALLS},
		      {"self", IP_VALUES_BY_SELF},   {"min", IP_VALUES_BY_MIN},
		      {"avg", IP_VALUES_BY_AVG},     {"p50", IP_VALUES_BY_AVG},
		      {"p90", IP_VALUES_BY_MAX},     {"p99", IP_VALUES_BY_MAX},
		      {"p99.9", IP_VALUES_BY_MAX},   {"max", IP_VALUES_BY_MAX},
		      {"stddev", IP_VALUES_BY_MAX},  {CLI_SORT_VALUE, IP_VALUES_BY_VALUE}};

	for (size_t i = 0; o->sort && i < sizeof(orders) / sizeof(*orders); i++)
		if (!strcmp(o->sort, orders[i].column))
			return orders[i].order;
	return IP_VALUES_BY_TOTAL;
}
