/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the durations of a function in two recordings differ by more than chance.
 *
 * Two questions, two tests, both from histograms (memory is bounded, whatever the number of calls):
 *
 *   location  Is a call of the second recording as likely to last longer than one of the first as
 *             the other way round? The Wilcoxon-Mann-Whitney test with correction for ties (Mann &
 *             Whitney 1947; Lehmann, "Nonparametrics", 1975, 1.4), calls in one step of the
 *             histogram being ties. Not Welch's test of means: latencies have long tails, and one
 *             outlier would decide.
 *   tail      Is the share of calls that are longer than 99 of 100 calls of both together the same?
 *             Two proportions (pooled, z). The first test is nearly blind to a hundredth of the
 *             calls that gets a hundred times longer, which is what people look for.
 *
 * Both tests count on calls that do not depend on each other. Calls do: phases of a program, warm
 * caches, bursts. So each variance is multiplied by the design effect, estimated by batch means
 * (Law & Kelton, "Simulation Modeling and Analysis", 9.5.3): consecutive calls are put into 16 to
 * 32 batches; means of m independent calls have a variance of a single one's / m, and what is found
 * above that is the factor by which fewer calls are there than it seems. It is never taken below 1.
 * (Over time; what differs from run to run is not in one run, and no test on two recordings can
 * know it.)
 *
 * Many functions are tested at once: q values are those of Benjamini & Hochberg (1995), which bound
 * the expected share of false ones among the differences that are called significant.
 */
#ifndef IP_COMPARE_H
#define IP_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/profile/histogram.h"

#define IP_BATCHES 32u

/* Sums over consecutive calls. All zero: none. */
struct ip_batches {
	uint64_t size;	  /* calls of a batch; 0: there was none */
	uint64_t in_last; /* calls in the last one */
	size_t n;	  /* batches, the last one included */
	struct ip_batch {
		double sum; /* of the steps of the histogram that the calls are in */
		uint32_t rows[IP_HISTOGRAM_ROWS];
	} batches[IP_BATCHES];
};

void ip_batches_add(struct ip_batches *batches, uint64_t value);

/* The durations of one function in one recording: either a histogram with batches, or buckets
 * (powers of two) of one that was made in the process, whose calls must be taken for
 * independent. */
struct ip_durations {
	const struct ip_histogram *histogram;
	const struct ip_batches *batches; /* NULL: none */
	const uint64_t *buckets;
	unsigned nbuckets;
};

struct ip_comparison {
	uint64_t n1, n2;
	/* how likely a call of the second is longer than one of the first; equal ones are half
	 * longer */
	double superior;
	double location;     /* p of that; NAN: too few calls */
	double tail1, tail2; /* shares of calls behind the common 99th percentile */
	double tail;	     /* p of that; NAN: too few calls, or it is not known */
};

/* Compares steps one by one: both recordings must have the same unit of time. 0, or -1 with an
 * error where memory ran out. */
int ip_compare(const struct ip_durations *first, const struct ip_durations *second,
	       struct ip_comparison *ret);

/* Fewest calls of either side that are tested. */
#define IP_COMPARE_MIN 8u

/* q values of n p values; NAN stays, and does not count. 0, or -1 with an error where memory ran
 * out. */
int ip_compare_adjust(const double *p, size_t n, double *ret_q);

#endif
