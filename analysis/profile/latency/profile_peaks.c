/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the peaks of two profiles.
 */
#include "analysis/profile/latency/profile_peaks.h"

#include <math.h>
#include <string.h>

static uint64_t calls_near(const struct ip_profile *p, unsigned bin)
{
	return (bin ? p->calls[bin - 1] : 0) + p->calls[bin] +
	       (bin + 1 < IP_LATENCY_BUCKETS ? p->calls[bin + 1] : 0);
}

static bool is_peak_near(const bool *peaks, unsigned bin)
{
	return (bin && peaks[bin - 1]) || peaks[bin] ||
	       (bin + 1 < IP_LATENCY_BUCKETS && peaks[bin + 1]);
}

static void find_peaks(const struct ip_profile *p, uint64_t n, bool ret[IP_LATENCY_BUCKETS])
{
	struct ip_latency latency = {.count = n};

	memcpy(latency.calls, p->calls, sizeof(latency.calls));
	ip_latency_peaks(&latency, ret);
}

void ip_profile_new_peaks(const struct ip_profile *first, const struct ip_profile *second,
			  bool ret[IP_LATENCY_BUCKETS])
{
	struct ip_profile_distance d;
	bool before[IP_LATENCY_BUCKETS];

	memset(ret, 0, IP_LATENCY_BUCKETS * sizeof(*ret));
	ip_profile_compare(first, second, IP_LATENCY_BUCKETS, &d);
	if (d.n1 < IP_PROFILE_CALLS || d.n2 < IP_PROFILE_CALLS)
		return;
	find_peaks(first, d.n1, before);
	find_peaks(second, d.n2, ret);
	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
		const double n1 = d.n1, n2 = d.n2, k1 = calls_near(first, b),
			     k2 = calls_near(second, b), both = (k1 + k2) / (n1 + n2),
			     by_chance =
				     IP_PROFILE_DEVIATIONS *
				     sqrt(both * (1 - both) * (d.effect1 / n1 + d.effect2 / n2));

		ret[b] = ret[b] && !is_peak_near(before, b) && k2 >= IP_PROFILE_CALLS &&
			 k2 / n2 - k1 / n1 > by_chance;
	}
}
