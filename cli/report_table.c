/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of iprobe report, and what stands around it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fit_name.h"
#include "cli/report.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/selection.h"
#include "common/units.h"

#define OTHER_COLUMNS 76u
#define NAME_MIN      24u

#define MISSING_SHOWN 10 /* --json has them all */

static void print_time(const struct cli_report_row *row, uint64_t ns, bool of_ended_calls)
{
	char buffer[16];
	const struct ip_histogram *h = &row->stats->histogram;

	if (!cli_report_has_times(row) || (row->logged && of_ended_calls && !h->count && !h->dropped))
		printf(" %8s", "-");
	else
		printf(" %8s", ip_format_ns(ns, buffer));
}

/* Of a histogram an upper bound is known. */
static void print_percentile(const struct cli_report_row *row, uint64_t ns)
{
	char buffer[16], bound[20];

	if (row->logged || !cli_report_has_times(row)) {
		print_time(row, ns, true);
		return;
	}
	snprintf(bound, sizeof(bound), "<%s", ip_format_ns(ns, buffer));
	printf(" %8s", bound);
}

static void print_missing(const struct cli_report *r)
{
	const struct ip_recording *s = r->trace->session;
	char from[16], to[16];

	if (s->nmissing)
		fputs("\nCalls are missing, since somebody else (a uprobe, a debugger) had changed the sites "
		      "of\n",
		      stdout);
	for (size_t i = 0; i < s->nmissing && i < MISSING_SHOWN; i++) {
		fputs("  ", stdout);
		ip_print_clean(stdout,
			       ip_names_get(r->names, cli_report_missing_function(r, &s->missing[i])));
		printf(" from %s to %s after the start\n",
		       ip_format_ns(ip_recording_since_start(s, s->missing[i].from), from),
		       ip_format_ns(ip_recording_since_start(s, s->missing[i].to), to));
	}
	if (s->nmissing > MISSING_SHOWN)
		printf("  ... and %zu more\n", s->nmissing - MISSING_SHOWN);
}

static void print_header(const struct cli_report *r)
{
	const struct ip_trace_reader *t = r->trace;
	char duration[16], events[32], threads[32], lost[32], counted[32];

	ip_print_clean(stdout, t->dir);
	if (t->session->command && *t->session->command) {
		fputs(": ", stdout);
		ip_print_clean(stdout, t->session->command);
	}
	printf("\n%s events", ip_format_count(r->stats->events, events));
	if (t->lost)
		printf(", %s LOST", ip_format_count(t->lost, lost));
	else
		fputs(", none lost", stdout);
	if (t->session->payloads)
		printf(", %s calls counted", ip_format_count(r->counts->calls, counted));
	if (t->session->overwrites)
		printf(", %s before them overwritten", ip_format_count(t->session->overwritten, lost));
	if (t->session->filtered)
		printf(", %s filtered", ip_format_count(t->session->filtered, lost));
	printf(", %s thread%s, %s\n\n", ip_format_count(t->threads, threads), t->threads == 1 ? "" : "s",
	       ip_format_ns(ip_recording_ns(t->session, t->end - t->begin), duration));
}

static void print_footer(const struct cli_report *r, size_t limit)
{
	char count[32];

	if (limit < r->nrows)
		printf("... and %zu more functions\n", r->nrows - limit);
	if (r->stats->unfinished)
		printf("\n%s calls had not finished when the recording ended; until then they count in "
		       "calls, total and "
		       "self.\n",
		       ip_format_count(r->stats->unfinished, count));
	if (r->stats->suspect)
		printf("\n%s calls may be several taken for one, since events were lost meanwhile; they are "
		       "not in "
		       "min to max.\n",
		       ip_format_count(r->stats->suspect, count));
	if (r->stats->orphans)
		printf("\n%s exits belong to calls that began before the recording; they are not counted.\n",
		       ip_format_count(r->stats->orphans, count));
}

/* Of several functions with one name, what tells them apart. */
static char *name_of(const struct cli_report *r, const struct cli_report_row *row, size_t width)
{
	char *name = NULL;

	if (row->ambiguous) {
		_cleanup_free_ char *full = ip_demangle(row->function->linker_name, true);

		if (full && asprintf(&name, "%s [%s]", full,
				     ip_recording_module_name(r->trace->session, row->function)) < 0)
			name = NULL;
	}
	if (!name)
		name = strdup(row->name);
	if (name)
		cli_fit_name(name, width);
	return name;
}

int cli_report_table(const struct cli_report *r, size_t limit)
{
	size_t width = cli_name_width(OTHER_COLUMNS, NAME_MIN);

	print_header(r);
	printf("%10s %8s %8s %8s %8s %8s %8s %8s  %s\n", "calls", "total", "self", "min", "avg", "p50", "p99",
	       "max", "function");
	for (size_t i = 0; i < r->nrows && i < limit; i++) {
		const struct cli_report_row *row = &r->rows[i];
		_cleanup_free_ char *name = name_of(r, row, width);

		if (!name)
			return ip_error("out of memory");
		printf("%10" PRIu64, row->count);
		print_time(row, row->summary.total, false);
		if (row->logged)
			print_time(row, row->summary.self, false);
		else
			printf(" %8s", "-");
		print_time(row, row->summary.min, true);
		print_time(row, row->summary.avg, true);
		print_percentile(row, row->summary.p50);
		print_percentile(row, row->summary.p99);
		print_time(row, row->summary.max, true);
		printf("  %s\n", name);
	}
	print_footer(r, limit);
	print_missing(r);
	return 0;
}
