/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean of a counter per call, from samples whose share of the calls was not always the same.
 *
 * Quotas are given by the interval. So a function that is called rarely in one phase of a program
 * and often in another has, of its calls in the first, a larger share sampled, and the mean of all
 * samples would be that phase's. Therefore (Cochran, Sampling Techniques, chapters 5 and 5A):
 *
 *   1. A stratum is a stretch of time between two looks of the controller: how often the function
 *      was called in it, as far as any call could become a sample, and what its samples summed up
 *      to. It stands for its calls: mean of its samples times its calls. What all strata come to,
 *      divided by all calls, is the mean. (The share of calls that are samples is the same for each
 *      call within a stratum, so this is Horvitz and Thompson's too.) Calls between two strata,
 *      when a quota was used up or there were no probes, are as those of the one up to some moment,
 *      and as those of the other from then on: how often they came tells when that was. What cannot
 *      be told so goes into the variance (a bridge).
 *   2. One of fewer than IP_STRATUM_LEAST samples is not closed: the next stretch joins it.
 *   3. The first samples are a function's first calls, not any: caches are cold. They are a stratum
 *      of as many calls, which is known exactly.
 *   4. Variance, within: of each stratum, from its own samples, less the share of its calls that
 *      were measured: what was measured is not uncertain. One of a single value (the counter had
 *      none for the other samples) is taken to vary as the others do.
 *   5. Variance, between: samples of a stratum may be of calls that follow each other (a quota is
 *      used up at its beginning, a turn lasts some milliseconds), and so be more alike than the
 *      rest of it. How much the means of neighbouring strata differ tells (successive differences;
 *      5A.12, collapsed strata). Of the two neighbours the one that differs less counts, and none
 *      that has far more calls a second, or fewer: a phase of the program that begins in between is
 *      no error. The larger of 4 and 5 is taken.
 *   6. Calls in front of the first sample and behind the last one are as those next to them, with a
 *      variance as of a walk at random whose steps are those between neighbouring strata, or of a
 *      drift. If they, or those between the samples of one stratum, or between two strata, came
 *      more often than on either side, or less, they may be of anything that the program does: they
 *      are as uncertain as the means of all strata differ, as far as that is no chance (far).
 *   7. Of samples that are all alike the variance is 0, which says little when they are few. Of
 *      what is counted (not timed) no interval is narrower than the rule of three: of n calls that
 *      all had the same count, up to 3 / n of all calls may have another one: none, or one more.
 *   8. Few samples of what is skewed: those that have missed the rare large values show a mean that
 *      is too small and a variance that is too small as well. So the interval goes as far as the
 *      upper end, of one side, of one that knows of the skewness: of counts that of a Poisson's, of
 *      events of the size that variance and mean tell; of times that of a gamma's. It is given to
 *      either side.
 */
#ifndef IP_STRATIFIED_H
#define IP_STRATIFIED_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/fperf.h"

#define IP_STRATUM_LEAST 2u

struct ip_stratum {
	double calls; /* any of which could have become a sample */
	/* calls behind them, none of which could: the quota was used up, or there were no probes */
	double rest;
	double far;		/* rule 6: such calls between or in front of its samples, squared */
	double calls_s, rest_s; /* how long the ones and the others took */
	double rate;		/* calls a second of the former; set when it is closed */
	uint64_t n;		/* samples; */
	uint64_t missing[IP_FPERF_EVENTS]; /* of which so many have no value of the event */
	double sum[IP_FPERF_EVENTS], squares[IP_FPERF_EVENTS];
};

struct ip_strata {
	struct ip_stratum first;       /* rule 3 */
	struct ip_stratum open;	       /* rule 2 */
	struct ip_stratum last;	       /* the newest that is closed; n 0: none is */
	uint64_t n;		       /* that are closed, last left out; of these: */
	double calls[IP_FPERF_EVENTS]; /* of strata with a value */
	double total[IP_FPERF_EVENTS];
	double within[IP_FPERF_EVENTS],
		within_squares[IP_FPERF_EVENTS]; /* the latter: for degrees of freedom */
	/* of those with two neighbours */
	double between[IP_FPERF_EVENTS], between_squares[IP_FPERF_EVENTS];
	/* the latter: of those with them; */
	double weight[IP_FPERF_EVENTS], inner_weight[IP_FPERF_EVENTS];
	double within_weight[IP_FPERF_EVENTS]; /* of those with two values or more */
	double bridges[IP_FPERF_EVENTS];
	double far[IP_FPERF_EVENTS]; /* rule 6: calls, squared; of the means of strata: */
	/* rule 6: calls in front of the first sample that came as often as those behind them */
	double front;
	double steps[IP_FPERF_EVENTS],
		/* of neighbours: how many; differences of their means, squared, less what is
		 * chance */
		steps_squares[IP_FPERF_EVENTS];
	double means[IP_FPERF_EVENTS], means_sum[IP_FPERF_EVENTS], means_squares[IP_FPERF_EVENTS],
		chance[IP_FPERF_EVENTS]; /* how many; sums; of their own variances */
	/* difference of last's mean to the one before it, squared */
	double before[IP_FPERF_EVENTS];
	uint64_t samples, missing[IP_FPERF_EVENTS]; /* of all */
};

/* What came when a quota was used up could be no sample: it is put apart. Of all calls in the
 * stretch so many were samples, one in every, up to at_s of seconds; but cpu_s is all that the
 * process ran meanwhile. */
void ip_stratum_divide(struct ip_stratum *stretch, uint32_t every, bool used_up, double at_s,
		       double seconds, double cpu_s);

/* A stretch of time is over. first: it is the function's first, and all of its samples are of its
 * first calls. */
void ip_strata_add(struct ip_strata *s, unsigned nevents, const struct ip_stratum *stretch,
		   bool first);

/* Mean of an event per call; NAN: no sample. *ret_ci: half the width of its 95 % interval;
 * negative: not known. one: what one thing more counts; 0: it is timed. */
double ip_strata_mean(const struct ip_strata *s, unsigned event, double one, double *ret_ci);

#endif
