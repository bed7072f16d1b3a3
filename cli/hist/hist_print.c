/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints histograms and heat maps, for people and as JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/elide.h"
#include "cli/hist/hist.h"
#include "cli/hist/hist_lines.h"
#include "cli/report/report.h"
#include "cli/report/thread_lines.h"
#include "cli/report/value_note.h"
#include "cli/tail_mark.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define BAR 50u

/* Finds the first and the last bucket with calls. */
static void bounds(const uint64_t *calls, unsigned n, unsigned *ret_first, unsigned *ret_last)
{
	*ret_first = *ret_last = 0;
	for (unsigned b = 0, found = 0; b < n; b++)
		if (calls[b]) {
			*ret_first = found++ ? *ret_first : b;
			*ret_last = b;
		}
}

/* Percentiles that are shown by value. */
static const struct {
	const char *name, *key;
	double share;
} percentiles[] = {{"p50", "p50_ns", 0.5},
		   {"p90", "p90_ns", 0.9},
		   {"p99", "p99_ns", 0.99},
		   {"p99.9", "p999_ns", 0.999}};

#define PERCENTILES (sizeof(percentiles) / sizeof(*percentiles))

static uint64_t percentile(const struct cli_hist *h, const struct ip_latency *f, size_t i)
{
	return ip_recording_ns(
		h->session,
		ip_histogram_percentile(f->durations, percentiles[i].share, f->min, f->max));
}

/* What was measured counts calls when they begin, and has their durations when they end. */
static void print_unended(const struct cli_hist *h, uint32_t function,
			  const struct cli_histogram *f)
{
	const struct ip_count *c = f->logged ? NULL : &h->counts->functions[function];
	char count[32];

	if (c && c->calls > c->ended)
		ip_print(stdout, "; %s more had not finished",
			 ip_format_count(c->calls - c->ended, count));
}

static int print_head(const struct cli_hist *h, uint32_t item, const struct cli_histogram *f)
{
	const struct ip_value_group *group = cli_hist_value(h, item);
	uint32_t function = cli_hist_function(h, item);
	_cleanup_free_ char *value =
		group ? ip_value_group_text(h->latencies->groups->values, group) : NULL;
	char count[32], min[16], max[16], mean[16], self[16], mark[CLI_TAIL_MARK_MAX];

	if (group && !value)
		return -1;
	ip_print(stdout, "%s%s%s", ip_names_shown(h->names, function), value ? "  " : "",
		 value ? value : "");
	ip_print(stdout, ": %s call%s, %s to %s, %s in the mean", ip_format_count(f->count, count),
		 f->count == 1 ? "" : "s", ip_format_ns(f->min, min), ip_format_ns(f->max, max),
		 ip_format_ns((double)f->total / f->count, mean));
	if (f->has_self)
		ip_print(stdout, ", of which %s its own",
			 ip_format_ns((double)f->self / f->count, self));
	if (f->logged)
		cli_tail_mark(f->until_tail, f->count, mark);
	else
		cli_tail_mark_counted(&h->counts->functions[function],
				      h->session->functions[function].tails, mark);
	if (mark[0])
		ip_print(stdout, " (%s)", mark);
	print_unended(h, function, f);
	ip_print(stdout, "\n");
	for (size_t i = 0; value && i < PERCENTILES; i++)
		ip_print(stdout, "%s%s %s", i ? ", " : "  ", percentiles[i].name,
			 ip_format_ns(percentile(h, f->logged, i), min));
	if (value)
		ip_print(stdout, "\n");
	return 0;
}

static void print_bars(const struct cli_histogram *f)
{
	unsigned first, last;
	uint64_t most = 1;

	bounds(f->calls, f->nbuckets, &first, &last);
	for (unsigned b = first; b <= last; b++)
		most = f->calls[b] > most ? f->calls[b] : most;
	ip_print(stdout, "%9s   %8s %13s\n", "from", "below", "calls");
	for (unsigned b = first; b <= last; b++) {
		char from[16], to[16], count[32];
		unsigned length =
			f->calls[b] ? (unsigned)((double)f->calls[b] / most * BAR + 0.999) : 0;

		ip_print(stdout, "%9s - %8s %13s ", ip_format_ns(f->from[b], from),
			 f->to[b] == UINT64_MAX ? "" : ip_format_ns(f->to[b], to),
			 ip_format_count(f->calls[b], count));
		for (unsigned i = 0; i < length; i++)
			ip_print(stdout, "#");
		ip_print(stdout, "%s\n", f->peaks[b] ? " < peak" : "");
	}
}

/* Prints a heat map. Rows are buckets, the longest durations on top. */
static void print_heat(const struct cli_hist *h, const struct ip_latency *f)
{
	unsigned first, last;
	char from[16], length[16];

	bounds(f->calls, IP_LATENCY_BUCKETS, &first, &last);
	for (unsigned b = last + 1; b-- > first;) {
		ip_print(stdout, "%9s |", ip_format_ns(ip_latency_from(b), from));
		for (size_t s = 0; s < h->latencies->slices.n; s++) {
			uint32_t n = f->over_time[s * IP_LATENCY_BUCKETS + b];

			ip_print(stdout, "%c", cli_hist_shade(n));
		}
		ip_print(stdout, "|\n");
	}
	ip_print(stdout, "%9s  0%*s\n", "", (int)h->latencies->slices.n - 1,
		 ip_format_ns((double)h->latencies->slices.ns * h->latencies->slices.n, length));
	cli_hist_print_shades(9);
}

int cli_hist_text(const struct cli_hist *h)
{
	if (h->threads) {
		cli_one_thread_print(h->threads, h->latencies->tid);
		ip_print(stdout, "\n");
	}
	for (size_t i = 0; i < h->n; i++) {
		struct cli_histogram f;

		cli_hist_make(h, h->order[i], &f);
		if (i)
			ip_print(stdout, "\n");
		if (print_head(h, h->order[i], &f) < 0)
			return -1;
		if (!h->latencies || !h->latencies->slices.n || !f.logged)
			print_bars(&f);
		else if (h->interval_ns)
			cli_hist_intervals_text(h, f.logged);
		else
			print_heat(h, f.logged);
	}
	if (h->interval_ns)
		cli_hist_print_line_note();
	if (h->latencies && h->latencies->groups)
		cli_value_note(h->latencies->groups->values, "total");
	return 0;
}

void cli_hist_bucket_json(struct ip_json *j, uint64_t from, uint64_t to, uint64_t calls, bool peak)
{
	ip_json_object(j, NULL);
	ip_json_uint(j, "from_ns", from);
	if (to == UINT64_MAX)
		ip_json_string(j, "to_ns", NULL);
	else
		ip_json_uint(j, "to_ns", to);
	ip_json_uint(j, "calls", calls);
	ip_json_bool(j, "peak", peak);
	ip_json_end_object(j);
}

static void json_over_time(struct ip_json *j, const struct cli_hist *h, const struct ip_latency *f)
{
	ip_json_array(j, "over_time");
	for (size_t s = 0; s < h->latencies->slices.n; s++)
		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
			uint32_t n = f->over_time[s * IP_LATENCY_BUCKETS + b];

			if (!n)
				continue;
			ip_json_object(j, NULL);
			ip_json_uint(j, "begin_ns", s * h->latencies->slices.ns);
			ip_json_uint(j, "from_ns", ip_latency_from(b));
			ip_json_uint(j, "calls", n);
			ip_json_end_object(j);
		}
	ip_json_end_array(j);
}

void cli_hist_value_json(struct ip_json *j, const struct ip_value_group *group)
{
	double from, to;

	ip_value_key_json(j, "value", &group->key);
	ip_json_string(j, "value_is", ip_value_key_is(&group->key));
	if (!strcmp(ip_value_key_is(&group->key), "range") &&
	    ip_value_key_bounds(&group->key, &from, &to)) {
		ip_json_double(j, "value_from", from);
		ip_json_double(j, "value_to", to);
	}
}

static void json_value(struct ip_json *j, const struct cli_hist *h,
		       const struct ip_value_group *group, const struct ip_latency *f)
{
	cli_hist_value_json(j, group);
	for (size_t i = 0; i < PERCENTILES; i++)
		ip_json_uint(j, percentiles[i].key, percentile(h, f, i));
}

/* Of one process that goes on the keys are pid and dir. */
void cli_hist_processes_json(struct ip_json *j, const struct cli_hist *h)
{
	if (h->pid) {
		ip_json_int(j, "pid", h->pid);
		ip_json_string(j, "dir", h->dir);
		return;
	}
	ip_json_string(j, "service", h->dir);
	ip_json_array(j, "processes");
	for (size_t i = 0; i < h->live->n; i++) {
		const struct cli_live_process *p = &h->live->processes[i];

		if (!p->known)
			continue;
		ip_json_object(j, NULL);
		ip_json_int(j, "pid", p->pid);
		ip_json_string(j, "dir", p->dir);
		ip_json_bool(j, "ended", p->ended);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}

void cli_hist_buckets_json(struct ip_json *j, const struct cli_histogram *f)
{
	ip_json_array(j, "buckets");
	for (unsigned b = 0; b < f->nbuckets; b++) {
		if (!f->calls[b])
			continue;
		cli_hist_bucket_json(j, f->from[b], f->to[b], f->calls[b], f->peaks[b]);
	}
	ip_json_end_array(j);
}

void cli_hist_figures_json(struct ip_json *j, const struct cli_hist *h, uint32_t item,
			   const struct cli_histogram *f)
{
	const uint32_t function = cli_hist_function(h, item);

	ip_json_uint(j, "calls", f->count);
	ip_json_uint(j, "min_ns", f->min);
	ip_json_uint(j, "max_ns", f->max);
	ip_json_uint(j, "total_ns", f->total);
	if (f->has_self)
		ip_json_uint(j, "self_ns", f->self);
	if (f->logged)
		cli_tail_json(j, f->until_tail, f->count);
	else
		cli_tail_json_counted(j, &h->counts->functions[function],
				      h->session->functions[function].tails);
	cli_hist_buckets_json(j, f);
}

void cli_hist_json(const struct cli_hist *h)
{
	struct ip_json j;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	if (h->latencies) {
		ip_json_uint(&j, "events", h->latencies->events);
		ip_json_uint(&j, "lost", h->lost);
		ip_json_uint(&j, "invalid", h->session->invalid);
		if (h->threads)
			cli_one_thread_json(&j, h->threads, h->latencies->tid);
	} else {
		cli_hist_processes_json(&j, h);
		ip_json_uint(&j, "ts", ip_recording_since_start(h->session, h->counts->tsc));
	}
	if (h->latencies && h->latencies->slices.n)
		ip_json_uint(&j, h->interval_ns ? "interval_ns" : "slice_ns",
			     h->latencies->slices.ns);
	if (h->latencies && h->latencies->groups) {
		ip_json_uint(&j, "other_values", h->latencies->groups->values->others);
		ip_json_string(&j, "by", h->by);
	}
	ip_json_array(&j, h->latencies && h->latencies->groups ? "rows" : "functions");
	for (size_t i = 0; i < h->n; i++) {
		const struct ip_recording *s = h->session;
		const struct ip_value_group *group = cli_hist_value(h, h->order[i]);
		uint32_t function = cli_hist_function(h, h->order[i]);
		struct cli_histogram f;

		cli_hist_make(h, h->order[i], &f);
		ip_json_object(&j, NULL);
		ip_json_string(&j, "function", ip_names_get(h->names, function));
		cli_json_short(&j, ip_names_get(h->names, function),
			       ip_names_short(h->names, function));
		ip_json_string(&j, "module", ip_recording_module_name(s, &s->functions[function]));
		ip_json_string(&j, "payload", f.logged ? "log" : "hist");
		if (group)
			json_value(&j, h, group, f.logged);
		cli_json_dropped(&j, s, function);
		cli_hist_figures_json(&j, h, h->order[i], &f);
		if (h->latencies && h->latencies->slices.n && f.logged) {
			if (h->interval_ns)
				cli_hist_intervals_json(&j, h, f.logged);
			else
				json_over_time(&j, h, f.logged);
		}
		ip_json_end_object(&j);
	}
	ip_json_end_array(&j);
	ip_json_end_object(&j);
}
