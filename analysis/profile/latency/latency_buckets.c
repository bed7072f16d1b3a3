/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bounds of buckets, and which of them are peaks.
 */
#include "analysis/profile/latency/latency.h"

#define PEAK_SHARE 100 /* a peak has at least one call in so many */

uint64_t ip_latency_from(unsigned bucket)
{
	return bucket ? 1ull << (bucket - 1) : 0;
}

uint64_t ip_latency_to(unsigned bucket)
{
	return bucket < 64 ? 1ull << bucket : UINT64_MAX;
}

void ip_latency_peaks(const struct ip_latency *latency, bool ret[IP_LATENCY_BUCKETS])
{
	const uint64_t *n = latency->calls;
	int last = -1;	     /* the last peak so far */
	uint64_t lowest = 0; /* lowest bucket since last */

	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
		uint64_t before = b ? n[b - 1] : 0,
			 behind = b + 1 < IP_LATENCY_BUCKETS ? n[b + 1] : 0;
		/* of equal neighbours the first is the peak */
		bool top = n[b] && n[b] > before && n[b] >= behind &&
			   n[b] * PEAK_SHARE >= latency->count;

		ret[b] = false;
		if (last >= 0 && n[b] < lowest)
			lowest = n[b];
		if (!top)
			continue;
		if (last < 0 || 2 * lowest <= (n[last] < n[b] ? n[last] : n[b])) {
			ret[b] = true;
		} else if (n[b] > n[last]) {
			/* there is no valley between them: they are one peak, and the higher
			 * bucket stands for it */
			ret[last] = false;
			ret[b] = true;
		} else {
			continue;
		}
		last = b;
		lowest = n[b];
	}
}
