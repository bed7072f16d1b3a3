/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean of a counter per call, from samples whose share of the calls was not always the same.
 *
 * Quotas are given per interval. So if a function is called rarely in one phase of a program and
 * often in another, a larger share of its calls is sampled in the first phase, and the mean of all
 * samples would be mostly that phase's. Therefore (Cochran, Sampling Techniques, chapters 5 and
 * 5A):
 *
 *   1. A stratum is a stretch of time between two looks of the controller. It has the number of
 *      calls in this time, as far as any of them could become a sample, and the sums of its
 *      samples. It stands for its calls: mean of its samples times its calls. The total of all
 *      strata, divided by all calls, is the mean. (Within a stratum each call has the same chance
 *      to be a sample, so this is also Horvitz and Thompson's estimator.) Calls between two strata
 *      came when a quota was used up or there were no probes. Up to some moment they are taken to
 *      be like those of the one stratum, and from then on like those of the other. How often they
 *      came tells when that moment was. What cannot be found out in this way goes into the variance
 *      (a bridge).
 *   2. A stratum of fewer than IP_STRATUM_LEAST samples is not closed: the next stretch joins it.
 *   3. The first samples are a function's first calls, and not random ones: caches are cold. They
 *      are a stratum of as many calls, which is known exactly.
 *   4. Variance within strata: of each stratum, from its own samples, less the share of its calls
 *      that were measured, since what was measured is not uncertain. A stratum with a single value
 *      (the counter had none for the other samples) is taken to vary as the others do.
 *   5. Variance between strata: samples of a stratum may be of calls that follow each other (a
 *      quota is used up at its beginning, a turn lasts some milliseconds). So they may be more
 *      alike than the rest of the stratum. The differences between the means of neighbouring strata
 *      show how much (successive differences; 5A.12, collapsed strata). Of the two neighbours the
 *      one that differs less counts. A neighbour with far more, or far fewer, calls per second does
 *      not count: a new phase of the program is no error. The larger of 4 and 5 is taken.
 *   6. Calls before the first sample and after the last one are taken to be like those next to
 *      them. Their variance is that of a random walk whose steps are those between neighbouring
 *      strata, or that of a drift. Some calls came clearly more often, or less often, than the
 *      calls on either side. This may happen at an end, between the samples of one stratum, or
 *      between two strata. Such calls may be of anything that the program does: they are as
 *      uncertain as the means of all strata differ, as far as that is not chance (far).
 *   7. The variance of samples that are all alike is 0, which says little if they are few. For what
 *      is counted (not timed) no interval is narrower than the rule of three: of n calls that all
 *      had the same count, up to 3 / n of all calls may have another one: none, or one more.
 *   8. Few samples of a skewed distribution: if they have missed the rare large values, both their
 *      mean and their variance are too small. So the interval reaches at least as far as the
 *      one-sided upper end of an interval that knows the skewness. For counts this is a Poisson
 *      distribution's, of events of the size that variance and mean tell. For times it is a gamma
 *      distribution's. This width is used for both sides.
 */
#ifndef IP_STRATIFIED_H
#define IP_STRATIFIED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/fperf.h"

#define IP_STRATUM_LEAST 2u

struct ip_stratum {
	double calls; /* calls, each of which could have become a sample */
	/* calls after them, none of which could: the quota was used up, or there were no probes */
	double rest;
	/* rule 6: such calls between or before its samples, squared */
	double far;
	/* how long the calls in calls took, and those in rest */
	double calls_s, rest_s;
	double rate; /* calls per second of calls; set when the stratum is closed */
	uint64_t n;  /* number of samples */
	/* number of samples without a value of the event */
	uint64_t missing[IP_FPERF_EVENTS];
	double sum[IP_FPERF_EVENTS], squares[IP_FPERF_EVENTS];
};

struct ip_strata {
	struct ip_stratum first;       /* rule 3 */
	struct ip_stratum open;	       /* rule 2 */
	struct ip_stratum last;	       /* the newest stratum that is closed; n 0: there is none */
	uint64_t n;		       /* number of closed strata without last. Over these: */
	double calls[IP_FPERF_EVENTS]; /* of strata with a value */
	double total[IP_FPERF_EVENTS];
	/* sums of variances, and of their squares for the degrees of freedom */
	double within[IP_FPERF_EVENTS], within_squares[IP_FPERF_EVENTS];
	/* of strata with two neighbours */
	double between[IP_FPERF_EVENTS], between_squares[IP_FPERF_EVENTS];
	/* inner_weight: only of strata with neighbours */
	double weight[IP_FPERF_EVENTS], inner_weight[IP_FPERF_EVENTS];
	double within_weight[IP_FPERF_EVENTS]; /* of strata with two values or more */
	double bridges[IP_FPERF_EVENTS];
	/* rule 6: squared calls, which count times the variance of the means of strata */
	double far[IP_FPERF_EVENTS];
	/* rule 6: calls before the first sample that came as often as those after it */
	double front;
	/* over pairs of neighbours: their number, and the sum of the squared differences of their
	 * means less the part that is chance */
	double steps[IP_FPERF_EVENTS], steps_squares[IP_FPERF_EVENTS];
	/* over strata: their number, sums of their means and squared means, sum of the means' own
	 * variances */
	double means[IP_FPERF_EVENTS], means_sum[IP_FPERF_EVENTS], means_squares[IP_FPERF_EVENTS],
		chance[IP_FPERF_EVENTS];
	/* squared difference between last's mean and that of the stratum before it */
	double before[IP_FPERF_EVENTS];
	uint64_t samples, missing[IP_FPERF_EVENTS]; /* of all strata */
};

/* Separates the calls that came after the quota was used up, since they could not be samples. Of
 * all calls in the stretch, samples were taken with one call in every, up to the time at_s of
 * seconds. cpu_s is the time that the process ran in the whole stretch. */
void ip_stratum_divide(struct ip_stratum *stretch, uint32_t every, bool used_up, double at_s,
		       double seconds, double cpu_s);

/* A stretch of time is over. first: it is the function's first, and all its samples are of the
 * first calls. */
void ip_strata_add(struct ip_strata *s, unsigned nevents, const struct ip_stratum *stretch,
		   bool first);

/* Returns the mean of an event per call; NAN: no sample. *ret_ci: half the width of its 95 %
 * interval; negative: not known. one: what one more thing adds to the count; 0: the event is a
 * time. */
double ip_strata_mean(const struct ip_strata *s, unsigned event, double one, double *ret_ci);

#endif
