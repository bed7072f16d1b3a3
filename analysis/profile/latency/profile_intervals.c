/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares intervals with those before.
 */
#include "analysis/profile/latency/profile_intervals.h"

#include <math.h>
#include <string.h>

enum ip_profile_verdict ip_profile_intervals_add(struct ip_profile_intervals *s,
						 const uint64_t calls[IP_LATENCY_BUCKETS],
						 struct ip_profile_distance *ret)
{
	static const uint64_t none[IP_LATENCY_BUCKETS];
	const struct ip_profile before = {.calls = s->before};
	struct ip_profile now = {.calls = s->now};

	for (unsigned b = 0; b < IP_LATENCY_BUCKETS; b++) {
		s->now[b] += calls[b];
		s->nnow += calls[b];
	}
	if (s->nnow < IP_PROFILE_CALLS)
		now.calls = none;
	ip_profile_compare(&before, &now, IP_LATENCY_BUCKETS, ret);
	if (s->nnow < IP_PROFILE_CALLS)
		return IP_PROFILES_FEW;
	memcpy(s->before, s->now, sizeof(s->before));
	memset(s->now, 0, sizeof(s->now));
	s->nnow = 0;
	return ip_profile_judge(ret, NAN);
}
