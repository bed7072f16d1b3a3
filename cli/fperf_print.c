/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fperf's results as a table, CSV and JSON.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/names.h"
#include "cli/csv.h"
#include "cli/fperf.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/units.h"

#define NAME_WIDTH 32
#define LIVE_ROWS  20

/* "1.23M"; buffer >= 16 */
static const char *short_number(double n, char *buffer)
{
	static const char *const units[] = {"", "k", "M", "G", "T", "P"};
	unsigned unit = 0;

	if (isnan(n))
		return strcpy(buffer, "-");
	while (fabs(n) >= 999.5 && unit + 1 < sizeof(units) / sizeof(*units)) {
		n /= 1000;
		unit++;
	}
	snprintf(buffer, 16, !unit && n == floor(n) ? "%.0f" : "%.3g", n);
	return strcat(buffer, units[unit]);
}

/* Mean and interval; "-": no sample has a value. */
static void print_value(FILE *out, const struct ip_fperf_event *e, double mean, double ci, uint64_t samples,
			bool scaled)
{
	char value[24], width[24], cell[64];

	if (!samples) {
		fprintf(out, " %20s", "-");
		return;
	}
	if (!strcmp(e->unit, "ns")) {
		ip_format_ns(mean, value);
		ip_format_ns(ci < 0 ? 0 : ci, width);
	} else {
		short_number(mean, value);
		short_number(ci < 0 ? 0 : ci, width);
	}
	snprintf(cell, sizeof(cell), "%s%s +-%s", scaled ? "~" : "", value, ci < 0 ? "?" : width);
	fprintf(out, " %20s", cell);
}

static const char *short_name(const char *name)
{
	const char *colon = strstr(name, "::");

	return colon ? colon + 2 : name;
}

static void print_calls(FILE *out, const struct ip_fperf_row *row)
{
	char calls[24], ci[24], cell[64];

	short_number(row->calls, calls);
	if (row->calls_ci == 0)
		snprintf(cell, sizeof(cell), "%s", calls);
	else
		snprintf(cell, sizeof(cell), "~%s +-%s", calls,
			 row->calls_ci < 0 ? "?" : short_number(row->calls_ci, ci));
	fprintf(out, " %18s", cell);
}

/* Samples with a value of the event. */
static uint64_t valued(const struct ip_fperf_row *row, unsigned event)
{
	return row->samples > row->missing[event] ? row->samples - row->missing[event] : 0;
}

static void print_table(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n,
			size_t limit)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);

	char name[NAME_WIDTH + 1];

	fprintf(out, "%-*s %8s %18s", NAME_WIDTH, "function", "samples", "calls");
	for (unsigned e = 0; e < o->nevents; e++)
		fprintf(out, " %20s", short_name(o->events[e]->name));
	fperf_derived_header(out, f);
	fputs("\n", out);
	for (size_t i = 0; i < n && (!limit || i < limit); i++) {
		snprintf(name, sizeof(name), "%s", rows[i].function);
		ip_clean(name); /* it comes from the program's file */
		fprintf(out, "%-*s %8lu", NAME_WIDTH, name, rows[i].samples);
		print_calls(out, &rows[i]);
		for (unsigned e = 0; e < o->nevents; e++)
			print_value(out, o->events[e], rows[i].mean[e], rows[i].ci[e], valued(&rows[i], e),
				    rows[i].scaled[e]);
		fperf_derived_cells(out, f, &rows[i]);
		fputs("\n", out);
	}
	if (limit && n > limit)
		fprintf(out, "(%zu functions more)\n", n - limit);
}

static void print_csv(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct cli_csv csv = {.out = out};
	static const char *const columns[] = {"function", "module", "samples", "calls", "calls_ci95", "live"};

	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		cli_csv_string(&csv, columns[i]);
	for (unsigned e = 0; e < o->nevents; e++) {
		_cleanup_free_ char *ci = NULL;

		if (asprintf(&ci, "%s ci95", o->events[e]->name) < 0)
			ci = NULL;
		cli_csv_string(&csv, o->events[e]->name);
		cli_csv_string(&csv, ci);
	}
	fperf_derived_csv_header(&csv, f);
	cli_csv_end(&csv);
	for (size_t i = 0; i < n; i++) {
		cli_csv_string(&csv, rows[i].function);
		cli_csv_string(&csv, rows[i].module);
		cli_csv_uint(&csv, true, rows[i].samples);
		cli_csv_double(&csv, true, rows[i].calls);
		cli_csv_double(&csv, rows[i].calls_ci >= 0, rows[i].calls_ci);
		cli_csv_double(&csv, true, rows[i].live);
		for (unsigned e = 0; e < o->nevents; e++) {
			cli_csv_double(&csv, valued(&rows[i], e), rows[i].mean[e]);
			cli_csv_double(&csv, rows[i].ci[e] >= 0, rows[i].ci[e]);
		}
		fperf_derived_csv(&csv, f, &rows[i]);
		cli_csv_end(&csv);
	}
}

static void print_json(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct ip_fperf_summary sum;
	struct ip_json j;

	ip_fperf_summary(f, &sum);
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	ip_json_array(&j, "events");
	for (unsigned e = 0; e < o->nevents; e++)
		ip_json_string(&j, NULL, o->events[e]->name);
	ip_json_end_array(&j);
	ip_json_double(&j, "budget", o->budget < 0 ? NAN : o->budget);
	ip_json_bool(&j, "exclusive", o->exclusive);
	ip_json_double(&j, "overhead", sum.overhead);
	ip_json_double(&j, "stops_share", sum.stops_share);
	ip_json_double(&j, "run_s", sum.run_s);
	ip_json_double(&j, "own_s", sum.own_s);
	ip_json_bool(&j, "confined", sum.confined);
	ip_json_double(&j, "duration_s", sum.length_s);
	ip_json_uint(&j, "samples", sum.samples);
	ip_json_uint(&j, "changes", sum.changes);
	ip_json_uint(&j, "changes_failed", sum.changes_failed);
	ip_json_string(&j, "change_failure", sum.change_failure);
	ip_json_uint(&j, "selected", sum.functions);
	ip_json_uint(&j, "called", sum.called);
	ip_json_uint(&j, "sampled", sum.sampled);
	ip_json_uint(&j, "left_out", sum.left_out);
	ip_json_uint(&j, "missing", sum.missing);
	ip_json_uint(&j, "scaled", sum.scaled);
	ip_json_uint(&j, "reopened", sum.gone);
	ip_json_array(&j, "functions");
	for (size_t i = 0; i < n; i++) {
		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", rows[i].function);
		ip_json_string(&j, "module", rows[i].module);
		ip_json_uint(&j, "samples", rows[i].samples);
		ip_json_uint(&j, "cut", rows[i].cut);
		ip_json_double(&j, "calls", rows[i].calls);
		ip_json_double(&j, "calls_ci95", rows[i].calls_ci < 0 ? NAN : rows[i].calls_ci);
		ip_json_uint(&j, "counted", rows[i].counted);
		ip_json_double(&j, "live", rows[i].live);
		ip_json_object(&j, "counters");
		for (unsigned e = 0; rows[i].samples && e < o->nevents; e++) {
			ip_json_object(&j, o->events[e]->name);
			ip_json_double(&j, "per_call", rows[i].mean[e]);
			ip_json_double(&j, "ci95", rows[i].ci[e] < 0 ? NAN : rows[i].ci[e]);
			if (o->events[e]->ncounters) {
				ip_json_uint(&j, "missing", rows[i].missing[e]);
				ip_json_uint(&j, "scaled", rows[i].scaled[e]);
			}
			ip_json_end_object(&j);
		}
		ip_json_end_object(&j);
		fperf_derived_json(&j, f, &rows[i]);
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}

void fperf_print(FILE *out, struct ip_fperf *f, enum fperf_format format, size_t limit)
{
	size_t n;
	_cleanup_free_ struct ip_fperf_row *rows = ip_fperf_rows(f, &n);

	if (!rows)
		fprintf(stderr, "fperf: %s\n", ip_error_message());
	else if (format == FPERF_CSV)
		print_csv(out, f, rows, n);
	else if (format == FPERF_JSON)
		print_json(out, f, rows, n);
	else
		print_table(out, f, rows, n, limit);
}

void fperf_show_live(void *context, struct ip_fperf *f)
{
	size_t n;
	_cleanup_free_ struct ip_fperf_row *rows = ip_fperf_rows(f, &n);
	struct ip_fperf_summary sum;
	size_t shown = n < LIVE_ROWS ? n : LIVE_ROWS;

	if (!rows)
		return;
	ip_fperf_summary(f, &sum);
	fprintf(stderr, "\033[J%.0f s, %lu samples of %zu functions, cost %.2f %%\n", sum.length_s,
		sum.samples, sum.sampled, 100 * sum.overhead);
	print_table(stderr, f, rows, shown, 0);
	/* back to where it began */
	fprintf(stderr, "\033[%zuF", shown + 2);
}
