/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which peaks of a latency profile another one does not have.
 */
#ifndef IP_PROFILE_PEAKS_H
#define IP_PROFILE_PEAKS_H

#include <stdbool.h>

#include "analysis/profile/latency/latency.h"
#include "analysis/profile/latency/profile_distance.h"

/* Finds the peaks of second (ip_latency_peaks()) that are new: first has no peak there, nor in the
 * bins beside it; there are IP_PROFILE_CALLS calls of second in these bins at least; and the share
 * of calls in them is larger than in first, by more than chance makes (as in profile_distance.h).
 * Both have IP_LATENCY_BUCKETS bins, and as many slices or none. Where one of them has fewer than
 * IP_PROFILE_CALLS calls, no peak is new. */
void ip_profile_new_peaks(const struct ip_profile *first, const struct ip_profile *second,
			  bool ret[IP_LATENCY_BUCKETS]);

#endif
