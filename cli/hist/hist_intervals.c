/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the histogram of a function in each interval of a trace.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/hist/hist.h"
#include "cli/hist/hist_lines.h"
#include "common/print.h"
#include "common/units.h"

/* Goes from one interval with calls to the next. */
struct walk {
	const struct ip_latencies *latencies;
	const struct ip_latency *function;
	size_t next, at; /* slice; at: of the line */
	struct cli_hist_line line;
	uint64_t calls[IP_LATENCY_BUCKETS];
	struct ip_profile_intervals before;
};

/* Returns false where there is none any more. */
static bool next_interval(struct walk *w)
{
	for (; w->next < w->latencies->slices.n; w->next++) {
		const uint32_t *cells = w->function->over_time + w->next * IP_LATENCY_BUCKETS;
		uint64_t sum = 0;

		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
			sum += w->calls[b] = cells[b];
		if (!sum)
			continue;
		w->at = w->next++;
		cli_hist_line_make(&w->before, ip_latency_slice_begin(&w->latencies->slices, w->at),
				   w->calls, &w->line);
		return true;
	}
	return false;
}

/* Says for how long there were no calls: from one slice up to, but not including, another one. */
static void print_pause(const struct ip_latencies *l, const struct cli_hist_axis *axis, size_t from,
			size_t to)
{
	if (from < to)
		ip_print(stdout, "%10.*f s %13s  (no calls until %.*f s)\n", axis->decimals,
			 ip_latency_slice_begin(&l->slices, from) / 1e9, "-", axis->decimals,
			 ip_latency_slice_begin(&l->slices, to) / 1e9);
}

void cli_hist_intervals_text(const struct cli_hist *h, const struct ip_latency *f)
{
	const struct ip_latencies *l = h->latencies;
	struct walk w = {.latencies = l, .function = f};
	struct cli_hist_axis axis = {0};
	size_t done = 0;

	for (unsigned b = IP_LATENCY_BUCKETS; b--;) {
		axis.from[b] = ip_latency_from(b);
		axis.first = f->calls[b] ? b : axis.first;
		axis.last = f->calls[b] && !axis.last ? b : axis.last;
	}
	cli_hist_axis_fit(&axis, l->slices.ns, 0);
	cli_hist_print_axis(&axis);
	while (next_interval(&w)) {
		print_pause(l, &axis, done, w.at);
		cli_hist_print_line(&axis, &w.line);
		ip_print(stdout, "\n");
		done = w.at + 1;
	}
	print_pause(l, &axis, done, l->slices.n);
}

void cli_hist_intervals_json(struct ip_json *j, const struct cli_hist *h,
			     const struct ip_latency *f)
{
	struct walk w = {.latencies = h->latencies, .function = f};

	ip_json_array(j, "intervals");
	while (next_interval(&w)) {
		struct ip_latency profile = {.count = w.line.n};
		bool peaks[IP_LATENCY_BUCKETS];

		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
			profile.calls[b] = w.line.calls[b];
		ip_latency_peaks(&profile, peaks);
		ip_json_object(j, NULL);
		ip_json_uint(j, "begin_ns", w.line.begin_ns);
		ip_json_uint(j, "calls", w.line.n);
		cli_hist_line_json(j, &w.line);
		ip_json_array(j, "buckets");
		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
			if (profile.calls[b])
				cli_hist_bucket_json(j, ip_latency_from(b), ip_latency_to(b),
						     profile.calls[b], peaks[b]);
		ip_json_end_array(j);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
}
