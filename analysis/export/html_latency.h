/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page shows of latencies: histograms, heat maps, and how far each interval is from those
 * before.
 */
#ifndef IP_HTML_LATENCY_H
#define IP_HTML_LATENCY_H

#include "analysis/profile/latency/latency.h"

struct ip_html_latency_options {
	const bool *ranked;    /* by function: it is to be shown */
	const uint32_t *shown; /* by function: its index in the page */
	uint64_t zero_ns;      /* from which times of the page count, since slices.begin */
};

/* The most columns of a heat map. */
#define IP_HTML_INTERVALS 2000u

/* Makes a JSON object. The caller frees it. Returns NULL with an error where memory ran out. */
char *ip_html_latency(const struct ip_latencies *latencies,
		      const struct ip_html_latency_options *options);

#endif
