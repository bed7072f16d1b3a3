/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes latencies for the page.
 */
#include "analysis/export/html_latency.h"

#include <inttypes.h>
#include <math.h>

#include "analysis/profile/profile_intervals.h"

/* Each slice that was compared: its number, its distance, whether it has changed. */
static void put_changes(const struct ip_latencies *l, const struct ip_latency *f, FILE *out)
{
	struct ip_profile_intervals intervals = {0};
	const char *separator = "";

	for (size_t s = 0; f->over_time && s < l->slices.n; s++) {
		uint64_t calls[IP_LATENCY_BUCKETS], n = 0;
		struct ip_profile_distance d;
		enum ip_profile_verdict verdict;

		for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
			n += calls[b] = f->over_time[s * IP_LATENCY_BUCKETS + b];
		if (!n)
			continue;
		verdict = ip_profile_intervals_add(&intervals, calls, &d);
		if (isnan(d.distance) || verdict == IP_PROFILES_FEW)
			continue;
		fprintf(out, "%s%zu,%.3f,%d", separator, s, d.distance,
			verdict == IP_PROFILES_DIFFER);
		separator = ",";
	}
}

static void put_function(const struct ip_latencies *l, const struct ip_latency *f, FILE *out)
{
	const char *separator = "";

	fputs("{\"buckets\":[", out);
	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
		if (f->calls[b]) {
			fprintf(out, "%s%u,%" PRIu64, separator, b, f->calls[b]);
			separator = ",";
		}
	fputs("],\"heat\":[", out);
	separator = "";
	for (size_t i = 0; f->over_time && i < l->slices.n * IP_LATENCY_BUCKETS; i++)
		if (f->over_time[i]) {
			fprintf(out, "%s%zu,%u", separator, i, f->over_time[i]);
			separator = ",";
		}
	fputs("],\"changes\":[", out);
	put_changes(l, f, out);
	fputs("]}", out);
}

void ip_html_latency(const struct ip_latencies *l, const struct ip_html_latency_options *o,
		     FILE *out)
{
	const char *separator = "";

	/* the first slice may begin before what the page shows */
	fprintf(out,
		"{\"slices\":%zu,\"ns\":%" PRIu64 ",\"begin\":%" PRId64
		",\"buckets\":%u,\"functions\":{",
		l->slices.n, l->slices.ns,
		(int64_t)(ip_latency_slice_begin(&l->slices, 0) - o->zero_ns), IP_LATENCY_BUCKETS);
	for (uint32_t i = 0; i < l->nfunctions; i++) {
		if (!o->ranked[i] || !l->functions[i].count || o->shown[i] == UINT32_MAX)
			continue;
		fprintf(out, "%s\"%u\":", separator, o->shown[i]);
		put_function(l, &l->functions[i], out);
		separator = ",\n";
	}
	fputs("}}", out);
}
