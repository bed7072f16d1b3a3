/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints iprobe hist --diff as a table and as JSON.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/elide.h"
#include "cli/hist/hist_diff.h"
#include "cli/report/report_diff.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define OTHER_COLUMNS 75u
#define NAME_MIN      20u

/* The side of a pair that is there: of the second trace, or of the first. */
static const struct cli_hist *side_of(const struct cli_hist_diff *d, const struct cli_hist_pair *p,
				      uint32_t *ret_item)
{
	const bool is_after = p->after != CLI_HIST_NONE;

	*ret_item = is_after ? p->after : p->before;
	return is_after ? &d->after.hist : &d->before.hist;
}

/* Makes the name of the function, with the value where there is one. The caller frees it. Returns
 * NULL with an error. */
static char *text_of(const struct cli_hist_diff *d, const struct cli_hist_pair *p)
{
	uint32_t item;
	const struct cli_hist *h = side_of(d, p, &item);
	const struct ip_value_group *value = cli_hist_value(h, item);
	_cleanup_free_ char *text =
		value ? ip_value_group_text(h->latencies->groups->values, value) : NULL;
	char *ret = NULL;

	if (value && !text)
		return NULL;
	if (asprintf(&ret, "%s%s%s", ip_names_shown(h->names, cli_hist_function(h, item)),
		     text ? "  " : "", text ? text : "") >= 0)
		return ret;
	ip_error("out of memory");
	return NULL;
}

static void print_bins(double bins, const char *format, int width)
{
	char text[32] = "-";

	if (!isnan(bins))
		snprintf(text, sizeof(text), format, bins);
	ip_print(stdout, " %*s", width, text);
}

static void print_side(const struct cli_hist *h, uint32_t item, const char *which)
{
	const uint64_t calls = item == CLI_HIST_NONE ? 0 : cli_hist_calls(h, item);
	char count[32] = "-", mean[16] = "-";

	if (calls) {
		ip_format_count(calls, count);
		ip_format_ns((double)cli_hist_total(h, item) / calls, mean);
	}
	ip_print(stdout, " %*s", *which == 'c' ? 10 : 8, *which == 'c' ? count : mean);
}

static void print_peaks(const struct cli_hist *h, uint32_t item, const bool *peaks,
			const char *what)
{
	struct cli_histogram f;

	cli_hist_make(h, item, &f);
	for (unsigned b = 0; b < f.nbuckets; b++) {
		char from[16], to[16], count[32];

		if (peaks[b])
			ip_print(stdout, "%10s peak %s: %s to %s, %s call%s, %.3g %%\n", "", what,
				 ip_format_ns(f.from[b], from),
				 f.to[b] == UINT64_MAX ? "" : ip_format_ns(f.to[b], to),
				 ip_format_count(f.calls[b], count), ip_plural(f.calls[b]),
				 100.0 * f.calls[b] / f.count);
	}
}

static int print_pair(const struct cli_hist_diff *d, const struct cli_hist_pair *p)
{
	_cleanup_free_ char *name = text_of(d, p);

	if (!name)
		return -1;
	cli_fit_name(name, cli_name_width(OTHER_COLUMNS, NAME_MIN));
	ip_print(stdout, "%-10s", cli_hist_verdict_name(p->verdict));
	print_bins(p->distance.distance, "%.2f", 8);
	print_bins(p->distance.by_chance, "%.2f", 6);
	print_bins(p->distance.shift, "%+.2f", 6);
	print_side(&d->before.hist, p->before, "calls");
	print_side(&d->after.hist, p->after, "calls");
	print_side(&d->before.hist, p->before, "mean");
	print_side(&d->after.hist, p->after, "mean");
	ip_print(stdout, "  %s\n", name);
	if (p->before != CLI_HIST_NONE && p->after != CLI_HIST_NONE) {
		print_peaks(&d->after.hist, p->after, p->came, "came");
		print_peaks(&d->before.hist, p->before, p->went, "went");
	}
	return 0;
}

/* Says how many pairs have a verdict, and what it means. */
static void print_rest(const struct cli_hist_diff *d, enum cli_hist_verdict verdict,
		       const char *meaning)
{
	size_t n = 0;
	char count[32];

	for (size_t i = 0; i < d->n; i++)
		n += d->pairs[i].verdict == verdict;
	if (n)
		ip_print(stdout, "%s %s%s\n", ip_format_count(n, count),
			 cli_hist_verdict_name(verdict), meaning);
}

int cli_hist_diff_text(const struct cli_hist_diff *d)
{
	const bool all = d->options->filter.functions;
	size_t shown = 0, certain = 0;

	for (size_t i = 0; i < d->n; i++)
		certain += d->pairs[i].verdict < CLI_HIST_ALIKE;
	cli_diff_header("before", d->before.reader, d->before.latencies->events);
	cli_diff_header("after ", d->after.reader, d->after.latencies->events);
	ip_print(stdout, "\n%-10s %8s %6s %6s %21s %17s  %s\n", "verdict", "distance", "chance",
		 "shift", "calls before, after", "mean", d->options->by ? "value" : "function");
	for (size_t i = 0; i < d->n && shown < d->options->filter.limit; i++) {
		if (!all && d->pairs[i].verdict >= CLI_HIST_ALIKE)
			break;
		if (print_pair(d, &d->pairs[i]) < 0)
			return -1;
		shown++;
	}
	if (!all && shown < certain)
		ip_print(stdout, "... and %zu more that differ\n", certain - shown);
	if (!shown)
		ip_print(stdout, "(none)\n");
	ip_print(stdout,
		 "\nDistances are in bins: 1 is what it takes to make all calls twice as long. "
		 "Chance makes up to what its column says.\n");
	print_rest(d, CLI_HIST_ALIKE,
		   ": less than 0.1 (or by finer bins, fine_distance_bins), or less than chance "
		   "makes.");
	print_rest(d, CLI_HIST_UNSURE,
		   ": chance alone makes more than 0.5 of so few calls, or of such long phases.");
	print_rest(d, CLI_HIST_FEW, ": fewer than 20 calls in one of the traces.");
	print_rest(d, CLI_HIST_UNTESTED, ": one is logged and one measured, or by other clocks.");
	if (fabs(d->median_shift) >= IP_PROFILE_ALIKE)
		ip_print(stdout,
			 "In the median they shifted by %+.2f: what all have in common may be the "
			 "machine, and not the program.\n",
			 d->median_shift);
	ip_print(stdout, "These are two recordings; %s\n", cli_diff_runs_differ);
	return 0;
}

static void json_peaks(struct ip_json *j, const char *key, const struct cli_histogram *f,
		       const bool *peaks)
{
	ip_json_array(j, key);
	for (unsigned b = 0; b < f->nbuckets; b++)
		if (peaks[b])
			cli_hist_bucket_json(j, f->from[b], f->to[b], f->calls[b], true);
	ip_json_end_array(j);
}

static void json_side(struct ip_json *j, const char *key, const struct cli_hist *h, uint32_t item)
{
	struct cli_histogram f;

	if (item == CLI_HIST_NONE) {
		ip_json_string(j, key, NULL);
		return;
	}
	cli_hist_make(h, item, &f);
	ip_json_object(j, key);
	ip_json_string(j, "payload", f.logged ? "log" : "hist");
	cli_hist_figures_json(j, h, item, &f);
	ip_json_end_object(j);
}

static void json_pair(struct ip_json *j, const struct cli_hist_diff *d,
		      const struct cli_hist_pair *p)
{
	static const bool none[IP_LATENCY_BUCKETS];
	const bool both = p->before != CLI_HIST_NONE && p->after != CLI_HIST_NONE;
	uint32_t item;
	const struct cli_hist *h = side_of(d, p, &item);
	const uint32_t function = cli_hist_function(h, item);
	const struct ip_recording_function *f = &h->session->functions[function];
	const struct ip_value_group *value = cli_hist_value(h, item);
	struct cli_histogram before = {0}, after = {0};

	if (both) {
		cli_hist_make(&d->before.hist, p->before, &before);
		cli_hist_make(&d->after.hist, p->after, &after);
	}
	ip_json_object(j, NULL);
	ip_json_string(j, "function", ip_names_get(h->names, function));
	ip_json_string(j, "linker_name", f->linker_name);
	ip_json_string(j, "module", ip_recording_module_name(h->session, f));
	if (value)
		cli_hist_value_json(j, value);
	ip_json_string(j, "verdict", cli_hist_verdict_name(p->verdict));
	/* a NAN becomes null */
	ip_json_double(j, "distance_bins", p->distance.distance);
	ip_json_double(j, "fine_distance_bins", p->fine);
	ip_json_double(j, "by_chance_bins", p->distance.by_chance);
	ip_json_double(j, "shift_bins", p->distance.shift);
	json_peaks(j, "peaks_came", &after, both ? p->came : none);
	json_peaks(j, "peaks_went", &before, both ? p->went : none);
	json_side(j, "before", &d->before.hist, p->before);
	json_side(j, "after", &d->after.hist, p->after);
	ip_json_end_object(j);
}

void cli_hist_diff_json(const struct cli_hist_diff *d)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	cli_diff_trace_json(&j, "before", d->before.reader, d->before.latencies->events);
	cli_diff_trace_json(&j, "after", d->after.reader, d->after.latencies->events);
	ip_json_double(&j, "alike_below_bins", IP_PROFILE_ALIKE);
	ip_json_uint(&j, "few_below_calls", IP_PROFILE_CALLS);
	ip_json_double(&j, "median_shift_bins", d->median_shift);
	if (d->options->by)
		ip_json_string(&j, "by", d->options->by);
	ip_json_array(&j, d->options->by ? "rows" : "functions");
	for (size_t i = 0; i < d->n && i < d->options->filter.limit; i++)
		json_pair(&j, d, &d->pairs[i]);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
