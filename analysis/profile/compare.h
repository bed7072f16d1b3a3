/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests whether the durations of a function in two recordings differ by more than chance.
 *
 * Two tests answer two questions. Both use histograms (memory is bounded, whatever the number of
 * calls):
 *
 *   location  Is a call of the second recording as likely to last longer than a call of the
 *             first as the other way round? The test is that of Wilcoxon, Mann and Whitney with
 *             correction for ties (Mann & Whitney 1947; Lehmann, "Nonparametrics", 1975, 1.4).
 *             Calls in one step of the histogram are ties. Welch's test of means is not used:
 *             latencies have long tails, and one outlier would decide.
 *   tail      Some calls are longer than 99 of 100 calls of both recordings together. Is their
 *             share the same in both? The test compares two proportions (pooled, z). The first
 *             test is nearly blind where one call in a hundred gets a hundred times longer,
 *             which is what people look for.
 *
 * Both tests assume that calls do not depend on each other. But calls do: phases of a program,
 * warm caches, bursts. So each variance is multiplied by the design effect, estimated by batch
 * means (Law & Kelton, "Simulation Modeling and Analysis", 9.5.3). Consecutive calls are put
 * into 16 to 32 batches. If calls were independent, the mean of m calls would have the variance
 * of a single call divided by m. The factor by which the variance found exceeds this is the
 * factor by which there are effectively fewer calls. It is never taken below 1. (This covers
 * dependence over time. What differs from run to run is not in one run, and no test on two
 * recordings can know it.)
 *
 * Many functions are tested at once. So q values are computed as Benjamini & Hochberg (1995) do:
 * they bound the expected share of false differences among those that are called significant.
 */
#ifndef IP_COMPARE_H
#define IP_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/profile/histogram.h"

#define IP_BATCHES 32u

/* Sums over batches of consecutive calls. All zero: no calls. */
struct ip_batches {
	uint64_t size;	  /* calls of a batch; 0: there was no call */
	uint64_t in_last; /* calls in the last batch */
	size_t n;	  /* number of batches, including the last one */
	struct ip_batch {
		double sum; /* sum of the histogram steps that the calls are in */
		uint32_t rows[IP_HISTOGRAM_ROWS];
	} batches[IP_BATCHES];
};

void ip_batches_add(struct ip_batches *batches, uint64_t value);

/* The durations of one function in one recording. Either a histogram with batches, or the
 * buckets (powers of two) of a histogram that was made in the process; its calls must be taken
 * as independent. */
struct ip_durations {
	const struct ip_histogram *histogram;
	const struct ip_batches *batches; /* NULL: none */
	const uint64_t *buckets;
	unsigned nbuckets;
};

struct ip_comparison {
	uint64_t n1, n2;
	/* The probability that a call of the second recording is longer than a call of the
	 * first. Two equal calls count as half longer. */
	double superior;
	double location;     /* p value of superior; NAN: too few calls */
	double tail1, tail2; /* shares of calls above the common 99th percentile */
	double tail;	     /* p value of their difference; NAN: too few calls, or not known */
};

/* Compares histograms step by step: both recordings must have the same unit of time. Returns 0,
 * or -1 with an error where memory ran out. */
int ip_compare(const struct ip_durations *first, const struct ip_durations *second,
	       struct ip_comparison *ret);

/* Both sides need at least so many calls to be tested. */
#define IP_COMPARE_MIN 8u

/* Computes the q values of n p values. A NAN remains NAN and does not count. Returns 0, or -1
 * with an error where memory ran out. */
int ip_compare_adjust(const double *p, size_t n, double *ret_q);

#endif
