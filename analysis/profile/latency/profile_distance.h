/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far two latency profiles are apart: the Earth Mover's Distance (Rubner, Tomasi, Guibas,
 * 2000), by which OSprof compares profiles (latency.h). A profile has how many calls fell into each
 * bin. Both are taken as shares of their calls, so that numbers of calls do not count. The distance
 * is the least work that makes one profile of the other: each share times the number of bins by
 * which it moves. Where a bin is a power of two, a distance of 1 is what it takes to make all calls
 * twice as long, or a tenth of them a thousand times.
 *
 * Two recordings of one behaviour differ, too. By chance they do so the more, the fewer calls there
 * are; calls that depend on each other (phases, bursts) count as fewer calls.
 */
#ifndef IP_PROFILE_DISTANCE_H
#define IP_PROFILE_DISTANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/profile/histogram.h"

/* A profile of fewer calls is not compared: what it looks like may be chance. */
#define IP_PROFILE_CALLS 20u
/* Profiles that are closer, in powers of two, are alike, however many calls there are. */
#define IP_PROFILE_ALIKE 0.1
/* Where chance alone might make a distance as large as this, in powers of two, not to see one tells
 * nothing. */
#define IP_PROFILE_BLIND 0.5
/* What is taken for chance, in standard deviations. */
#define IP_PROFILE_DEVIATIONS 3.0

struct ip_profile {
	const uint64_t *calls; /* by bin */
	/* By [slice * nbins + bin]: the same calls by slices of time; NULL: not known, and the
	 * calls are taken as independent. */
	const uint32_t *by_slice;
	size_t nslices;
};

enum ip_profile_verdict {
	IP_PROFILES_DIFFER,
	IP_PROFILES_ALIKE,
	IP_PROFILES_UNSURE, /* they do not differ by more than chance, but chance may make much */
	IP_PROFILES_FEW,    /* one has too few calls to compare them */
};

struct ip_profile_distance {
	uint64_t n1, n2; /* calls */
	/* design effects: the factors by which there are effectively fewer calls; 1 or more */
	double effect1, effect2;
	double distance; /* in bins; NAN: one has no calls */
	/* of distance: what is not undone by other calls. Positive: calls of the second profile
	 * last longer, by so many bins in the mean. */
	double shift;
	/* what chance alone makes of so many calls in one of 400 cases at most, in bins; NAN as
	 * distance is */
	double by_chance;
};

/* Compares profiles of nbins bins. */
void ip_profile_compare(const struct ip_profile *first, const struct ip_profile *second,
			size_t nbins, struct ip_profile_distance *ret);

/* Returns the distance of the same calls by the steps of histograms, which are some 64 times finer
 * than powers of two, in powers of two. Where the edge of a bin lies amid a narrow peak, calls that
 * take 1 % longer are in the next bin: by bins they seem to have moved by one, here by 0.01. NAN:
 * one has no calls. */
double ip_profile_fine_distance(const struct ip_histogram *first,
				const struct ip_histogram *second);

/* Tells what a distance says whose bins are powers of two. fine is that of
 * ip_profile_fine_distance(); NAN: not known. */
enum ip_profile_verdict ip_profile_judge(const struct ip_profile_distance *distance, double fine);

#endif
