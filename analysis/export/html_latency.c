/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes what the page has of latencies.
 */
#include "analysis/export/html_latency.h"

#include <math.h>
#include <stdio.h>

#include "analysis/profile/latency/profile_intervals.h"
#include "common/json.h"
#include "common/print.h"

#define PARTS 1000 /* of a bin, in which distances are written */

/* Each slice that was compared: its number, its distance, whether it has changed. */
static void put_changes(const struct ip_latencies *l, const struct ip_latency *f, struct ip_json *j)
{
	struct ip_profile_intervals intervals = {0};

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
		ip_json_uint(j, NULL, s);
		ip_json_uint(j, NULL, (uint64_t)llround(d.distance * PARTS));
		ip_json_uint(j, NULL, verdict == IP_PROFILES_DIFFER);
	}
}

static void put_function(const struct ip_latencies *l, uint32_t function, uint32_t shown,
			 struct ip_json *j)
{
	const struct ip_latency *f = &l->functions[function];
	char key[16];

	snprintf(key, sizeof(key), "%u", shown);
	ip_json_object(j, key);
	ip_json_array(j, "buckets");
	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++)
		if (f->calls[b]) {
			ip_json_uint(j, NULL, b);
			ip_json_uint(j, NULL, f->calls[b]);
		}
	ip_json_end_array(j);
	ip_json_array(j, "heat");
	for (size_t i = 0; f->over_time && i < l->slices.n * IP_LATENCY_BUCKETS; i++)
		if (f->over_time[i]) {
			ip_json_uint(j, NULL, i);
			ip_json_uint(j, NULL, f->over_time[i]);
		}
	ip_json_end_array(j);
	ip_json_array(j, "changes");
	put_changes(l, f, j);
	ip_json_end_array(j);
	ip_json_end_object(j);
}

char *ip_html_latency(const struct ip_latencies *l, const struct ip_html_latency_options *o)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct ip_json j;

	if (out) {
		ip_json_init(&j, out);
		ip_json_object(&j, NULL);
		ip_json_uint(&j, "slices", l->slices.n);
		ip_json_uint(&j, "ns", l->slices.ns);
		/* the first slice may begin before what the page shows */
		ip_json_int(&j, "begin",
			    (int64_t)(ip_latency_slice_begin(&l->slices, 0) - o->zero_ns));
		ip_json_uint(&j, "buckets", IP_LATENCY_BUCKETS);
		ip_json_uint(&j, "parts", PARTS);
		ip_json_object(&j, "functions");
		for (uint32_t i = 0; i < l->nfunctions; i++)
			if (o->ranked[i] && l->functions[i].count && o->shown[i] != UINT32_MAX)
				put_function(l, i, o->shown[i], &j);
		ip_json_end_object(&j);
		ip_json_end_object(&j);
	}
	return ip_print_end_text(out, &text);
}
