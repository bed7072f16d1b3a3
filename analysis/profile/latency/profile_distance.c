/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On a line the Earth Mover's Distance is the area between the two cumulative distributions (Cohen,
 * Guibas, 1997).
 *
 * What chance makes of it is the sum of what it makes of the cumulative share up to each bin. The
 * variance of a difference of shares is p (1 - p) (e1 / n1 + e2 / n2), where p is the share in both
 * profiles together, and e the design effect: by which factor shares of slices of time vary more
 * than those of as many independent calls (ratio estimator of cluster sampling; Cochran, "Sampling
 * Techniques", 9A.1). Three standard deviations of all bins at once is what one of 400 distances
 * exceeds where all bins err together, and far fewer where they do not.
 */
#include "analysis/profile/latency/profile_distance.h"

#include <math.h>

#define STEPS	   (IP_HISTOGRAM_ROWS * IP_HISTOGRAM_STEPS)
#define SLICES_MIN 16u /* slices with calls: of fewer nothing is known about phases */

static uint64_t sum_of(const uint64_t *calls, size_t nbins)
{
	uint64_t n = 0;

	for (size_t b = 0; b < nbins; b++)
		n += calls[b];
	return n;
}

/* Returns the variance, among slices, of the share of calls up to a bin: share is that of all
 * calls. 0: not known. */
static double variance_among(const struct ip_profile *p, size_t nbins, size_t bin, uint64_t n,
			     double share)
{
	double squares = 0;
	size_t used = 0;

	for (size_t s = 0; s < p->nslices; s++) {
		const uint32_t *calls = p->by_slice + s * nbins;
		double all = 0, up_to = 0, difference;

		for (size_t b = 0; b < nbins; b++) {
			all += calls[b];
			up_to += b <= bin ? calls[b] : 0;
		}
		difference = up_to - share * all;
		squares += difference * difference;
		used += all > 0;
	}
	return used < SLICES_MIN ? 0 : squares * used / (used - 1) / ((double)n * n);
}

/* Returns the factor by which there are effectively fewer calls; 1 or more. */
static double design_effect(const struct ip_profile *p, size_t nbins, uint64_t n)
{
	double among = 0, independent = 0, here = 0, effect;
	uint64_t up_to = 0;

	if (!p->by_slice || n < 2)
		return 1;
	for (size_t b = 0; b + 1 < nbins; b++) {
		double share;

		up_to += p->calls[b];
		share = (double)up_to / n;
		/* of a bin without calls it is that of the bin before */
		if (p->calls[b])
			here = sqrt(variance_among(p, nbins, b, n, share));
		among += here;
		independent += sqrt(share * (1 - share) / n);
	}
	effect = independent > 0 ? among / independent : 1;
	return effect > 1 ? effect * effect : 1;
}

void ip_profile_compare(const struct ip_profile *first, const struct ip_profile *second,
			size_t nbins, struct ip_profile_distance *ret)
{
	uint64_t up_to1 = 0, up_to2 = 0;
	double n1, n2;

	*ret = (struct ip_profile_distance){.n1 = sum_of(first->calls, nbins),
					    .n2 = sum_of(second->calls, nbins),
					    .effect1 = 1,
					    .effect2 = 1,
					    .distance = NAN,
					    .shift = NAN,
					    .by_chance = NAN};
	if (!ret->n1 || !ret->n2)
		return;
	n1 = ret->n1;
	n2 = ret->n2;
	ret->effect1 = design_effect(first, nbins, ret->n1);
	ret->effect2 = design_effect(second, nbins, ret->n2);
	ret->distance = ret->shift = ret->by_chance = 0;
	for (size_t b = 0; b + 1 < nbins; b++) {
		double difference, both;

		up_to1 += first->calls[b];
		up_to2 += second->calls[b];
		difference = up_to1 / n1 - up_to2 / n2;
		both = (double)(up_to1 + up_to2) / (n1 + n2);
		ret->distance += fabs(difference);
		ret->shift += difference;
		ret->by_chance += IP_PROFILE_DEVIATIONS *
				  sqrt(both * (1 - both) * (ret->effect1 / n1 + ret->effect2 / n2));
	}
}

static uint32_t calls_of(const struct ip_histogram *h, unsigned i)
{
	const uint32_t *row = h->rows[i / IP_HISTOGRAM_STEPS];

	return row ? row[i % IP_HISTOGRAM_STEPS] : 0;
}

/* Returns where a step lies, in powers of two. 0 ns lies a power of two below 1 ns, as bins do. */
static double position_of(unsigned i)
{
	const unsigned row = i / IP_HISTOGRAM_STEPS, step = i % IP_HISTOGRAM_STEPS;

	if (!row)
		return step ? log2(step + 0.5) : log2(1.5) - 1;
	return log2(IP_HISTOGRAM_STEPS + step + 0.5) + row - 1;
}

double ip_profile_fine_distance(const struct ip_histogram *first, const struct ip_histogram *second)
{
	double n1 = 0, n2 = 0, up_to1 = 0, up_to2 = 0, sum = 0, last = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		n1 += calls_of(first, i);
		n2 += calls_of(second, i);
	}
	if (!n1 || !n2)
		return NAN;
	for (unsigned i = 0; i < STEPS; i++) {
		const uint32_t here1 = calls_of(first, i), here2 = calls_of(second, i);

		if (!here1 && !here2)
			continue;
		sum += fabs(up_to1 / n1 - up_to2 / n2) * (position_of(i) - last);
		last = position_of(i);
		up_to1 += here1;
		up_to2 += here2;
	}
	return sum;
}

enum ip_profile_verdict ip_profile_judge(const struct ip_profile_distance *d, double fine)
{
	if (d->n1 < IP_PROFILE_CALLS || d->n2 < IP_PROFILE_CALLS)
		return IP_PROFILES_FEW;
	/* a NAN is not less */
	if (d->distance > d->by_chance)
		return d->distance < IP_PROFILE_ALIKE || fine < IP_PROFILE_ALIKE
			       ? IP_PROFILES_ALIKE
			       : IP_PROFILES_DIFFER;
	return d->by_chance > IP_PROFILE_BLIND ? IP_PROFILES_UNSURE : IP_PROFILES_ALIKE;
}
