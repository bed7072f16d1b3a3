/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints iprobe report --diff as a table, JSON and CSV.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/report/report_diff.h"
#include "common/cleanup.h"
#include "common/csv.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define OTHER_COLUMNS 78u
#define NAME_MIN      23u

const char cli_diff_runs_differ[] = "runs differ by themselves: record several to know.";

/* Returns the q value of the test that the verdict rests on, the less certain one of two. */
static double q_of(const struct cli_pair *p)
{
	if (p->verdict == CLI_MIXED)
		return fmax(p->q, p->tail_q);
	return p->verdict == CLI_TAIL_UP || p->verdict == CLI_TAIL_DOWN ? p->tail_q : p->q;
}

static void print_q(double q)
{
	char text[16];

	if (isnan(q))
		strcpy(text, "-");
	else if (q < 1e-9)
		strcpy(text, "<1e-9");
	else
		snprintf(text, sizeof(text), q < 0.001 ? "%.0e" : "%.3f", q);
	ip_print(stdout, " %6s", text);
}

/* Prints "+12%", and "x12" from tenfold on. */
static void print_share(double before, double difference)
{
	double ratio = before > 0 ? (before + difference) / before : NAN;
	char text[32];

	if (isnan(ratio) || isnan(difference))
		strcpy(text, difference == 0 ? "+0%" : "-");
	else if (ratio >= 10)
		snprintf(text, sizeof(text), ratio < 1e5 ? "x%.0f" : "x%.0e", ratio);
	else
		snprintf(text, sizeof(text), fabs(ratio - 1) < 0.0995 ? "%+.1f%%" : "%+.0f%%",
			 (ratio - 1) * 100);
	ip_print(stdout, " %6s", text);
}

static void print_difference(double ns)
{
	char buffer[16], text[20] = "-";

	if (!isnan(ns))
		snprintf(text, sizeof(text), "%c%s", ns < 0 ? '-' : '+',
			 ip_format_ns(fabs(ns), buffer));
	ip_print(stdout, " %9s", text);
}

static void print_percentile(const struct cli_pair *p, enum cli_report_column column,
			     double difference)
{
	const struct cli_report_row *row = cli_pair_row(p);
	char buffer[16];
	bool known = cli_report_is_known(row, column);

	ip_print(stdout, " %8s", known ? ip_format_ns(cli_report_value(row, column), buffer) : "-");
	print_share(p->before && p->after ? cli_report_value(p->before, column) : 0,
		    p->before && p->after ? difference : NAN);
}

void cli_diff_header(const char *what, const struct ip_trace_reader *t, uint64_t n)
{
	char events[32], lost[32], invalid[32], duration[16];

	ip_print(stdout, "%s ", what);
	ip_print(stdout, "%s", t->dir);
	if (t->session->command && *t->session->command) {
		ip_print(stdout, ": ");
		ip_print(stdout, "%s", t->session->command);
	}
	ip_print(stdout, "\n       %s event%s, %s lost", ip_format_count(n, events), ip_plural(n),
		 t->lost ? ip_format_count(t->lost, lost) : "none");
	if (t->session->invalid)
		ip_print(stdout, ", %s invalid", ip_format_count(t->session->invalid, invalid));
	ip_print(stdout, ", %s\n",
		 ip_format_ns(ip_recording_ns(t->session, ip_trace_reader_recorded(t)), duration));
}

/* Returns when the probes of the row's function were taken away in its recording, or NULL. */
static const struct ip_recording_drop *drop_of(const struct cli_report *r,
					       const struct cli_report_row *row)
{
	const struct ip_recording *s = r->trace->session;

	return row && row->function ? ip_names_drop(s, row->function - s->functions) : NULL;
}

static void print_dropped(const struct cli_report *r, const struct cli_report_row *row,
			  const char *which)
{
	const struct ip_recording_drop *drop = drop_of(r, row);
	char at[16];

	if (drop)
		ip_print(stdout, " [%s: until dropped at %s]", which,
			 ip_format_ns(ip_recording_since_start(r->trace->session, drop->tsc), at));
}

static void json_dropped(struct ip_json *j, const char *key, const struct cli_report *r,
			 const struct cli_report_row *row)
{
	const struct ip_recording_drop *drop = drop_of(r, row);

	if (drop)
		ip_json_uint(j, key, ip_recording_since_start(r->trace->session, drop->tsc));
}

static void print_tails(const struct cli_report_row *row, const char *which)
{
	char buffer[CLI_TAIL_MARK_MAX];
	const char *mark = row ? cli_report_tail_mark(row, buffer) : "";

	if (*mark)
		ip_print(stdout, " [%s: %s]", which, mark);
}

static int print_row(const struct cli_diff *d, const struct cli_pair *p)
{
	_cleanup_free_ char *name = strdup(cli_report_text(cli_pair_report(d, p), cli_pair_row(p)));

	if (!name)
		return ip_error("out of memory");
	cli_fit_name(name, cli_name_width(OTHER_COLUMNS, NAME_MIN));
	ip_print(stdout, "%-10s", cli_verdict_name(p->verdict));
	print_q(q_of(p));
	if (p->before && p->after)
		print_share(p->before->count, p->calls);
	else
		ip_print(stdout, " %6s", "-");
	print_difference(p->total);
	print_difference(p->self);
	print_percentile(p, CLI_BY_P50, p->p50);
	print_percentile(p, CLI_BY_P99, p->p99);
	ip_print(stdout, "  %s", name);
	print_dropped(&d->before, p->before, "before");
	print_dropped(&d->after, p->after, "after");
	print_tails(p->before, "before");
	print_tails(p->after, "after");
	ip_print(stdout, "\n");
	return 0;
}

int cli_diff_table(const struct cli_diff *d)
{
	size_t shown = 0, certain = 0, few = 0, untested = 0;
	bool all = d->options->filter.functions;
	char count[32];

	for (size_t i = 0; i < d->n; i++) {
		certain += d->pairs[i].verdict < CLI_SAME;
		few += d->pairs[i].verdict == CLI_FEW;
		untested += d->pairs[i].verdict == CLI_UNTESTED;
	}
	cli_diff_header("before", d->before.trace, d->before.stats->events);
	cli_diff_header("after ", d->after.trace, d->after.stats->events);
	ip_print(stdout, "\n%-10s %6s %6s %9s %9s %15s %15s  %s\n", "verdict", "q", "calls",
		 "total", "self", "p50, change", "p99, change", "function");
	for (size_t i = 0; i < d->n && shown < d->options->filter.limit; i++) {
		if (!all && d->pairs[i].verdict >= CLI_SAME)
			continue;
		if (print_row(d, &d->pairs[i]) < 0)
			return -1;
		shown++;
	}
	if (!all && shown < certain)
		ip_print(stdout, "... and %zu more functions that differ\n", certain - shown);
	if (!shown)
		ip_print(stdout, "(none)\n");
	ip_print(stdout,
		 "\n%s function%s no difference that is certain (q <= %g) and at least %g %%.\n",
		 ip_format_count(d->n - certain - few - untested, count),
		 d->n - certain - few - untested == 1 ? " shows" : "s show", CLI_DIFF_Q,
		 100 * CLI_DIFF_MIN);
	if (few)
		ip_print(stdout, "%s more: too few calls to tell.\n", ip_format_count(few, count));
	if (untested)
		ip_print(stdout,
			 "%s more: not tested, since durations of both are not known, or not in "
			 "the same way.\n",
			 ip_format_count(untested, count));
	ip_print(stdout, "The test tells these two recordings apart; %s\n", cli_diff_runs_differ);
	return 0;
}

static void json_known(struct ip_json *j, const char *key, bool known, double value)
{
	if (known)
		ip_json_uint(j, key, (uint64_t)value);
	else
		ip_json_string(j, key, NULL);
}

static void json_side(struct ip_json *j, const char *key, const struct cli_report_row *row)
{
	static const struct {
		const char *key;
		enum cli_report_column column;
	} times[] = {{"total_ns", CLI_BY_TOTAL}, {"self_ns", CLI_BY_SELF}, {"avg_ns", CLI_BY_AVG},
		     {"p50_ns", CLI_BY_P50},	 {"p99_ns", CLI_BY_P99},   {"max_ns", CLI_BY_MAX}};

	if (!row) {
		ip_json_string(j, key, NULL);
		return;
	}
	ip_json_object(j, key);
	ip_json_uint(j, "calls", row->count);
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++)
		json_known(j, times[i].key, cli_report_is_known(row, times[i].column),
			   cli_report_value(row, times[i].column));
	cli_report_tail_json(j, row);
	ip_json_end_object(j);
}

void cli_diff_trace_json(struct ip_json *j, const char *key, const struct ip_trace_reader *t,
			 uint64_t n)
{
	ip_json_object(j, key);
	ip_json_string(j, "dir", t->dir);
	ip_json_uint(j, "events", n);
	ip_json_uint(j, "lost", t->lost);
	ip_json_uint(j, "invalid", t->session->invalid);
	ip_json_uint(j, "duration_ns", ip_recording_ns(t->session, ip_trace_reader_recorded(t)));
	ip_json_end_object(j);
}

void cli_diff_json(const struct cli_diff *d)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	cli_diff_trace_json(&j, "before", d->before.trace, d->before.stats->events);
	cli_diff_trace_json(&j, "after", d->after.trace, d->after.stats->events);
	ip_json_double(&j, "significance", CLI_DIFF_Q);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < d->n && i < d->options->filter.limit; i++) {
		const struct cli_pair *p = &d->pairs[i];
		const struct ip_recording_function *f = cli_pair_row(p)->function;
		bool tested = !isnan(p->comparison.location);

		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", cli_pair_row(p)->name);
		ip_json_string(&j, "linker_name", f->linker_name);
		ip_json_string(&j, "module",
			       ip_recording_module_name(cli_pair_report(d, p)->trace->session, f));
		ip_json_string(&j, "verdict", cli_verdict_name(p->verdict));
		json_dropped(&j, "before_dropped_after_ns", &d->before, p->before);
		json_dropped(&j, "after_dropped_after_ns", &d->after, p->after);
		/* a NAN becomes null */
		ip_json_double(&j, "p", p->comparison.location);
		ip_json_double(&j, "q", p->q);
		ip_json_double(&j, "superior", tested ? p->comparison.superior : NAN);
		ip_json_double(&j, "tail_p", p->comparison.tail);
		ip_json_double(&j, "tail_q", p->tail_q);
		ip_json_double(&j, "tail_before", isnan(p->tail_q) ? NAN : p->comparison.tail1);
		ip_json_double(&j, "tail_after", isnan(p->tail_q) ? NAN : p->comparison.tail2);
		ip_json_double(&j, "calls_change", p->calls);
		ip_json_double(&j, "total_change_ns", p->total);
		ip_json_double(&j, "self_change_ns", p->self);
		ip_json_double(&j, "p50_change_ns", p->p50);
		ip_json_double(&j, "p99_change_ns", p->p99);
		json_side(&j, "before", p->before);
		json_side(&j, "after", p->after);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

static void csv_side(struct ip_csv *csv, const struct cli_report_row *row)
{
	static const enum cli_report_column times[] = {CLI_BY_TOTAL, CLI_BY_SELF, CLI_BY_AVG,
						       CLI_BY_P50,   CLI_BY_P99,  CLI_BY_MAX};

	ip_csv_uint(csv, row, row ? row->count : 0);
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		bool known = row && cli_report_is_known(row, times[i]);

		ip_csv_uint(csv, known, known ? (uint64_t)cli_report_value(row, times[i]) : 0);
	}
	ip_csv_uint(csv, row && row->logged, row && row->logged ? row->stats->until_tail : 0);
}

void cli_diff_csv(const struct cli_diff *d)
{
	static const char *const keys[] = {"function", "linker_name", "module", "verdict",
					   "p",	       "q",	      "tail_p", "tail_q"};
	static const char *const sides[] = {"calls",  "total_ns", "self_ns", "avg_ns",
					    "p50_ns", "p99_ns",	  "max_ns",  "until_tail_call"};
	struct ip_csv csv = {.out = stdout};
	char key[32];

	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++)
		ip_csv_string(&csv, keys[i]);
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < sizeof(sides) / sizeof(*sides); i++) {
			snprintf(key, sizeof(key), "%s_%s", side ? "after" : "before", sides[i]);
			ip_csv_string(&csv, key);
		}
	ip_csv_end(&csv);
	for (size_t i = 0; i < d->n && i < d->options->filter.limit; i++) {
		const struct cli_pair *p = &d->pairs[i];
		const struct ip_recording_function *f = cli_pair_row(p)->function;

		ip_csv_string(&csv, cli_pair_row(p)->name);
		ip_csv_string(&csv, f->linker_name);
		ip_csv_string(&csv,
			      ip_recording_module_name(cli_pair_report(d, p)->trace->session, f));
		ip_csv_string(&csv, cli_verdict_name(p->verdict));
		ip_csv_double(&csv, true, p->comparison.location);
		ip_csv_double(&csv, true, p->q);
		ip_csv_double(&csv, true, p->comparison.tail);
		ip_csv_double(&csv, true, p->tail_q);
		csv_side(&csv, p->before);
		csv_side(&csv, p->after);
		ip_csv_end(&csv);
	}
}
