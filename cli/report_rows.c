/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of iprobe report: figures, order.
 */
#include "cli/report.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"

static double key_of(const struct cli_report_row *row, enum cli_report_column column)
{
	const struct ip_stats_summary *s = &row->summary;
	const double keys[CLI_REPORT_COLUMNS] = {
		[CLI_BY_CALLS] = row->count, [CLI_BY_TOTAL] = s->total,
		[CLI_BY_SELF] = s->self,     [CLI_BY_MIN] = s->min,
		[CLI_BY_AVG] = s->avg,	     [CLI_BY_P50] = s->p50,
		[CLI_BY_P90] = s->p90,	     [CLI_BY_P99] = s->p99,
		[CLI_BY_P999] = s->p999,     [CLI_BY_MAX] = s->max,
		[CLI_BY_STDDEV] = s->stddev, [CLI_BY_THREADS] = row->stats->threads};

	return keys[column];
}

static int by_name(const void *a, const void *b)
{
	const struct cli_report_row *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	if (!order)
		order = strcmp(x->function->linker_name, y->function->linker_name);
	return order ? order : (x->function > y->function) - (x->function < y->function);
}

/* Largest first; the same rows in the same order each time. */
static int by_key(const void *a, const void *b)
{
	const struct cli_report_row *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return by_name(a, b);
}

/* What a histogram tells: percentiles are upper bounds. */
static void summarize_counted(const struct cli_report *r, const struct ip_count *c,
			      struct ip_stats_summary *ret)
{
	const struct ip_recording *s = r->trace->session;
	const struct {
		double share;
		uint64_t *ret;
	} percentiles[] = {{0.5, &ret->p50}, {0.9, &ret->p90}, {0.99, &ret->p99}, {0.999, &ret->p999}};
	uint64_t from;

	*ret = (struct ip_stats_summary){0};
	if (!c->ended)
		return;
	ret->total = ip_recording_ns(s, c->sum);
	ret->avg = ip_recording_ns(s, c->sum / c->ended);
	ret->min = ip_recording_ns(s, c->min);
	ret->max = ip_recording_ns(s, c->max);
	for (size_t i = 0; i < sizeof(percentiles) / sizeof(*percentiles); i++)
		ip_counts_percentile(r->counts, s, c, percentiles[i].share, &from, percentiles[i].ret);
}

bool cli_report_has_times(const struct cli_report_row *row)
{
	return row->logged ? row->stats->calls : row->counted && row->counted->ended;
}

/* One row for each function that was called. */
int cli_report_rows(struct cli_report *r, const bool *selected, enum cli_report_column column)
{
	const struct ip_recording *s = r->trace->session;

	r->rows = calloc(s->nfunctions, sizeof(*r->rows));
	if (!r->rows)
		return ip_error("out of memory");
	for (size_t i = 0; i < s->nfunctions; i++) {
		struct cli_report_row *row = &r->rows[r->nrows];

		row->stats = &r->stats->functions[i];
		row->count = row->stats->calls ? row->stats->calls : row->stats->points;
		row->logged = row->count;
		row->counted = r->counts->functions[i].calls ? &r->counts->functions[i] : NULL;
		row->count += r->counts->functions[i].calls;
		if (!row->count || !selected[i])
			continue;
		row->function = &s->functions[i];
		row->name = ip_names_get(r->names, i);
		if (row->counted && !row->logged)
			summarize_counted(r, row->counted, &row->summary);
		else
			ip_stats_summarize(s, row->stats, &row->summary);
		row->key = key_of(row, column);
		r->nrows++;
	}
	qsort(r->rows, r->nrows, sizeof(*r->rows), by_name);
	for (size_t i = 1; i < r->nrows; i++)
		if (!strcmp(r->rows[i].name, r->rows[i - 1].name))
			r->rows[i].ambiguous = r->rows[i - 1].ambiguous = true;
	if (column != CLI_BY_FUNCTION)
		qsort(r->rows, r->nrows, sizeof(*r->rows), by_key);
	return 0;
}

uint32_t cli_report_missing_function(const struct cli_report *r, const struct ip_recording_missing *m)
{
	return ip_recording_number(r->trace->session, m->number).function;
}
