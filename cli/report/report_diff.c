/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe report --diff: finds pairs of functions, tests them, and sorts what matters most first.
 */
#include "cli/report/report_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report/function_pairs.h"
#include "cli/trace_args.h"
#include "common/cleanup.h"
#include "common/error.h"

static const char *const names[] = {
	[CLI_SLOWER] = "slower",   [CLI_FASTER] = "faster",	  [CLI_MIXED] = "mixed",
	[CLI_TAIL_UP] = "tail up", [CLI_TAIL_DOWN] = "tail down", [CLI_NEW] = "new",
	[CLI_GONE] = "gone",	   [CLI_CALLS] = "calls",	  [CLI_SAME] = "same",
	[CLI_FEW] = "few",	   [CLI_UNTESTED] = "not tested"};

static const char *const columns[] = {"calls", "total", "self", "p50", "p99", "q", "function"};

enum { BY_CALLS, BY_TOTAL, BY_SELF, BY_P50, BY_P99, BY_Q, BY_FUNCTION, NCOLUMNS };

const char *cli_verdict_name(enum cli_verdict verdict)
{
	return names[verdict];
}

static size_t find_column(const char *name)
{
	size_t i = 0;

	while (i < NCOLUMNS && strcmp(columns[i], name))
		i++;
	return i;
}

bool cli_diff_has_column(const char *name)
{
	return find_column(name) < NCOLUMNS;
}

static int make_side(const struct cli_report *r, struct cli_pair_side *ret)
{
	*ret = (struct cli_pair_side){.session = r->trace->session, .n = r->nrows};
	ret->functions = calloc(r->nrows + 1, sizeof(*ret->functions));
	for (size_t i = 0; ret->functions && i < r->nrows; i++)
		ret->functions[i] = r->rows[i].function;
	return ret->functions ? 0 : ip_error("out of memory");
}

static int make_pairs(struct cli_diff *d)
{
	struct cli_pair_side before = {0}, after = {0};
	_cleanup_free_ struct cli_item_pair *pairs = NULL;
	int ret = -1;

	if (make_side(&d->before, &before) == 0 && make_side(&d->after, &after) == 0)
		ret = cli_pairs_find(&before, &after, &pairs, &d->n);
	free(before.functions);
	free(after.functions);
	if (ret < 0)
		return -1;
	d->pairs = calloc(d->n + 1, sizeof(*d->pairs));
	if (!d->pairs)
		return ip_error("out of memory");
	for (size_t i = 0; i < d->n; i++) {
		if (pairs[i].before != CLI_NO_PAIR)
			d->pairs[i].before = &d->before.rows[pairs[i].before];
		if (pairs[i].after != CLI_NO_PAIR)
			d->pairs[i].after = &d->after.rows[pairs[i].after];
	}
	return 0;
}

static bool is_logged(const struct cli_report_row *row)
{
	return row->logged && row->stats->calls;
}

static bool is_measured(const struct cli_report_row *row)
{
	return !row->logged && row->counted && row->counted->measured;
}

static struct ip_durations durations_of(const struct cli_report *r,
					const struct cli_report_row *row)
{
	if (is_logged(row))
		return (struct ip_durations){.histogram = &row->stats->histogram,
					     .batches = row->stats->batches};
	return (struct ip_durations){.buckets = row->counted->buckets,
				     .nbuckets = r->counts->nbuckets};
}

static int compare(const struct cli_diff *d, struct cli_pair *p)
{
	struct ip_durations before, after;
	bool measured;

	p->comparison = (struct ip_comparison){.superior = 0.5, .location = NAN, .tail = NAN};
	if (!p->before || !p->after)
		return 0;
	/* buckets are in ticks of their own clock */
	measured = is_measured(p->before) && is_measured(p->after) &&
		   d->after.clock == d->after.trace->session &&
		   d->before.counts->shift == d->after.counts->shift;
	p->testable = measured || (is_logged(p->before) && is_logged(p->after));
	if (!p->testable)
		return 0;
	before = durations_of(&d->before, p->before);
	after = durations_of(&d->after, p->after);
	return ip_compare(&before, &after, &p->comparison);
}

/* Adjusts both tests of all functions as one family. */
static int adjust(struct cli_diff *d)
{
	_cleanup_free_ double *p = calloc(2 * d->n + 1, sizeof(*p)),
			      *q = calloc(2 * d->n + 1, sizeof(*q));

	if (!p || !q)
		return ip_error("out of memory");
	for (size_t i = 0; i < d->n; i++) {
		if (compare(d, &d->pairs[i]) < 0)
			return -1;
		p[2 * i] = d->pairs[i].comparison.location;
		p[2 * i + 1] = d->pairs[i].comparison.tail;
	}
	if (ip_compare_adjust(p, 2 * d->n, q) < 0)
		return -1;
	for (size_t i = 0; i < d->n; i++) {
		d->pairs[i].q = q[2 * i];
		d->pairs[i].tail_q = q[2 * i + 1];
	}
	return 0;
}

static double difference(const struct cli_pair *p, enum cli_report_column column)
{
	bool single = column != CLI_BY_CALLS && column != CLI_BY_TOTAL && column != CLI_BY_SELF;
	const struct cli_report_row *const rows[] = {p->before, p->after};
	double values[2] = {0};

	for (int i = 0; i < 2; i++) {
		const struct cli_report_row *row = rows[i];

		if (row ? !cli_report_is_known(row, column) : single)
			return NAN;
		values[i] = row ? cli_report_value(row, column) : 0;
	}
	return values[1] - values[0];
}

static bool matters(const struct cli_pair *p)
{
	const enum cli_report_column single[] = {CLI_BY_P50, CLI_BY_AVG};
	double way = p->comparison.superior > 0.5 ? 1 : -1;

	/* A difference in the other direction is no evidence. */
	for (size_t i = 0; i < sizeof(single) / sizeof(*single); i++) {
		double change = way * difference(p, single[i]);

		if (change > 0 && change >= CLI_DIFF_MIN * cli_report_value(p->before, single[i]))
			return true;
	}
	return false;
}

static enum cli_verdict judge(const struct cli_pair *p)
{
	bool slower = p->comparison.superior > 0.5;
	bool tail_up = p->comparison.tail2 > p->comparison.tail1;
	double before, after;

	if (!p->before)
		return CLI_NEW;
	if (!p->after)
		return CLI_GONE;
	if (p->q <= CLI_DIFF_Q && matters(p)) {
		/* Most calls may be faster while a few, now far slower, take more than that saves.
		 */
		if (p->tail_q <= CLI_DIFF_Q && slower != tail_up)
			return CLI_MIXED;
		return slower ? CLI_SLOWER : CLI_FASTER;
	}
	if (p->tail_q <= CLI_DIFF_Q)
		return tail_up ? CLI_TAIL_UP : CLI_TAIL_DOWN;
	before = p->before->count;
	after = p->after->count;
	if (fabs(after - before) >= CLI_DIFF_CALLS * fmax(before, after))
		return CLI_CALLS;
	return !p->testable ? CLI_UNTESTED : isnan(p->q) ? CLI_FEW : CLI_SAME;
}

/* Weighs a pair by its self time: there each nanosecond belongs to one function. So the function
 * that changed weighs most, and not its callers. */
static double weight(const struct cli_pair *p)
{
	return isnan(p->self) ? isnan(p->total) ? 0 : fabs(p->total) : fabs(p->self);
}

static int by_weight(const void *a, const void *b)
{
	const struct cli_pair *x = a, *y = b;
	bool certain = x->verdict < CLI_SAME;
	int order;

	if (certain != (y->verdict < CLI_SAME))
		return certain ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	order = strcmp(cli_pair_row(x)->name, cli_pair_row(y)->name);
	return order ? order
		     : strcmp(cli_pair_row(x)->function->linker_name,
			      cli_pair_row(y)->function->linker_name);
}

static int by_key(const void *a, const void *b)
{
	const struct cli_pair *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return by_weight(a, b);
}

static int by_function(const void *a, const void *b)
{
	int order = strcmp(cli_pair_row(a)->name, cli_pair_row(b)->name);

	return order ? order : by_weight(a, b);
}

/* Sorts the largest differences first, in either direction, and unknown ones last. */
static void sort(struct cli_diff *d)
{
	size_t column = d->options->sort ? find_column(d->options->sort) : NCOLUMNS;

	for (size_t i = 0; i < d->n; i++) {
		struct cli_pair *p = &d->pairs[i];
		const double keys[] = {[BY_CALLS] = fabs(p->calls),
				       [BY_TOTAL] = fabs(p->total),
				       [BY_SELF] = fabs(p->self),
				       [BY_P50] = fabs(p->p50),
				       [BY_P99] = fabs(p->p99),
				       [BY_Q] = -fmin(p->q, p->tail_q),
				       [BY_FUNCTION] = 0};

		p->key = column < NCOLUMNS ? keys[column] : weight(p);
		if (isnan(p->key))
			p->key = -INFINITY;
	}
	if (d->n)
		qsort(d->pairs, d->n, sizeof(*d->pairs),
		      column == NCOLUMNS      ? by_weight
		      : column == BY_FUNCTION ? by_function
					      : by_key);
}

static int make(const char *dir, struct cli_diff *d)
{
	if (cli_report_load_compared(d->options->other, d->options, NULL, &d->before) < 0 ||
	    cli_report_load_compared(dir, d->options, &d->before, &d->after) < 0 ||
	    make_pairs(d) < 0 || adjust(d) < 0)
		return -1;
	for (size_t i = 0; i < d->n; i++) {
		struct cli_pair *p = &d->pairs[i];

		p->calls = difference(p, CLI_BY_CALLS);
		p->total = difference(p, CLI_BY_TOTAL);
		p->self = difference(p, CLI_BY_SELF);
		p->p50 = difference(p, CLI_BY_P50);
		p->p99 = difference(p, CLI_BY_P99);
		p->verdict = judge(p);
	}
	sort(d);
	return 0;
}

int cli_report_diff(const char *dir, const struct cli_report_options *options)
{
	struct cli_diff d = {.options = options};
	int ret = make(dir, &d);

	if (ret == 0) {
		cli_reader_warn(d.before.trace);
		cli_reader_warn(d.after.trace);
		if (options->format == CLI_REPORT_JSON)
			cli_diff_json(&d);
		else if (options->format == CLI_REPORT_CSV)
			cli_diff_csv(&d);
		else
			ret = cli_diff_table(&d);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(d.pairs);
	cli_report_clear(&d.before);
	cli_report_clear(&d.after);
	return ret;
}
