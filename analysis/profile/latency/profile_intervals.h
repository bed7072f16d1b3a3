/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latency profiles of a function in consecutive intervals of time: each is compared with those
 * before it.
 */
#ifndef IP_PROFILE_INTERVALS_H
#define IP_PROFILE_INTERVALS_H

#include "analysis/profile/latency/latency.h"
#include "analysis/profile/latency/profile_distance.h"

/* What an interval is compared with. Intervals are put together until they have IP_PROFILE_CALLS
 * calls, and are compared then with those that were compared before. All zero: there was none. */
struct ip_profile_intervals {
	uint64_t before[IP_LATENCY_BUCKETS], now[IP_LATENCY_BUCKETS];
	uint64_t nnow; /* calls of now */
};

/* Adds the calls of an interval by bin, and compares it. Returns IP_PROFILES_FEW, and NAN in *ret,
 * where it was not compared. */
enum ip_profile_verdict ip_profile_intervals_add(struct ip_profile_intervals *intervals,
						 const uint64_t calls[IP_LATENCY_BUCKETS],
						 struct ip_profile_distance *ret);

#endif
