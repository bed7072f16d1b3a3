/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of fperf as CSV.
 */
#include <stdio.h>

#include "cli/fperf/fperf.h"
#include "common/cleanup.h"
#include "common/csv.h"

/* Prints two titles: in how many samples a counter has no value, and in how many its value is an
 * estimate. */
static void print_csv_losses(struct ip_csv *csv, const char *event)
{
	static const char *const what[] = {"missing", "scaled"};

	for (size_t i = 0; i < sizeof(what) / sizeof(*what); i++) {
		_cleanup_free_ char *title = NULL;

		if (asprintf(&title, "%s %s", event, what[i]) < 0)
			title = NULL;
		ip_csv_string(csv, title);
	}
}

void fperf_print_csv(FILE *out, struct ip_fperf *f, const struct ip_fperf_row *rows, size_t n)
{
	const struct ip_fperf_options *o = ip_fperf_get_options(f);
	struct ip_csv csv = {.out = out};
	static const char *const columns[] = {"function",   "module", "samples",	"calls",
					      "calls_ci95", "live",   "until_tail_call"};

	for (size_t i = 0; i < sizeof(columns) / sizeof(*columns); i++)
		ip_csv_string(&csv, columns[i]);
	for (unsigned e = 0; e < o->nevents; e++) {
		_cleanup_free_ char *ci = NULL;

		if (asprintf(&ci, "%s ci95", o->events[e]->name) < 0)
			ci = NULL;
		ip_csv_string(&csv, o->events[e]->name);
		ip_csv_string(&csv, ci);
		if (o->events[e]->ncounters)
			print_csv_losses(&csv, o->events[e]->name);
	}
	fperf_derived_csv_header(&csv, f);
	ip_csv_end(&csv);
	for (size_t i = 0; i < n; i++) {
		ip_csv_string(&csv, rows[i].function);
		ip_csv_string(&csv, rows[i].module);
		ip_csv_uint(&csv, true, rows[i].samples);
		ip_csv_double(&csv, true, rows[i].calls);
		ip_csv_double(&csv, rows[i].calls_ci >= 0, rows[i].calls_ci);
		ip_csv_double(&csv, true, rows[i].live);
		ip_csv_uint(&csv, rows[i].samples, rows[i].until_tail);
		for (unsigned e = 0; e < o->nevents; e++) {
			ip_csv_double(&csv, fperf_valued(&rows[i], e), rows[i].mean[e]);
			ip_csv_double(&csv, rows[i].ci[e] >= 0, rows[i].ci[e]);
			if (o->events[e]->ncounters) {
				ip_csv_uint(&csv, true, rows[i].missing[e]);
				ip_csv_uint(&csv, true, rows[i].scaled[e]);
			}
		}
		fperf_derived_csv(&csv, f, &rows[i]);
		ip_csv_end(&csv);
	}
}
