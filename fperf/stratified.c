/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strata. stratified.h has the rules that comments here name.
 */
#include "fperf/stratified.h"

#include <math.h>

#include "fperf/confidence.h"

#define ENOUGH	      0.5 /* part of the weight of all strata */
#define RULE_OF_THREE 3.0
/* Twice the standard deviation of a number that is uniformly distributed below 2: 1 / sqrt(3). */
#define DRAWN	      1.2
#define T95_ONE_SIDE  1.645
#define BETWEEN_LEAST 6u /* strata: the differences of fewer say too little */
/* For three means a, b, c of variance 1, the lesser of (a - b)^2 and (b - c)^2 has this
 * expectation: 2 - sqrt(12) / pi. */
#define LESSER 0.8973

static double size_of(const struct ip_stratum *s, unsigned e)
{
	return s->n > s->missing[e] ? s->n - s->missing[e] : 0;
}

static double mean_of(const struct ip_stratum *s, unsigned e)
{
	return s->sum[e] / size_of(s, e);
}

/* Returns the number of a stratum's calls that were not measured, times its calls: the factor of
 * the variance of its mean. */
static double weight_of(const struct ip_stratum *s, unsigned e)
{
	double unmeasured = s->calls - size_of(s, e);

	return unmeasured > 0 ? s->calls * unmeasured : 0;
}

static double square(double x)
{
	return x * x;
}

static double rate_of(double calls, double seconds)
{
	return seconds > 0 ? calls / seconds : 0;
}

static bool are_alike(double a, double b)
{
	return fabs(a - b) <= (a + b) / 2;
}

/* Rule 6: returns whether calls that could not be sampled came as often as those beside them. A
 * rate that is not known is not alike. */
static bool is_like(double rate, const struct ip_stratum *at)
{
	double side = at->rate > 0 ? at->rate : rate_of(at->calls, at->calls_s);

	return rate > 0 && side > 0 && fabs(rate - side) <= (rate + side) / 3;
}

static void join(struct ip_stratum *to, const struct ip_stratum *more)
{
	/* calls between samples of one stratum belong to it */
	if (more->n) {
		double rate = rate_of(to->rest, to->rest_s);

		if (!is_like(rate, more) || (to->n && !is_like(rate, to)))
			to->far += square(to->rest);
		to->calls += to->rest;
		to->calls_s += to->rest_s;
		to->rest = to->rest_s = 0;
	}
	to->calls += more->calls;
	to->rest += more->rest;
	to->calls_s += more->calls_s;
	to->rest_s += more->rest_s;
	to->far += more->far;
	to->n += more->n;
	for (unsigned e = 0; e < IP_FPERF_EVENTS; e++) {
		to->missing[e] += more->missing[e];
		to->sum[e] += more->sum[e];
		to->squares[e] += more->squares[e];
	}
}

/* Returns the variance of its samples; 0 if there is one sample, or none. */
static double variance_of(const struct ip_stratum *s, unsigned e)
{
	double variance, n = size_of(s, e);

	if (n < 2)
		return 0;
	variance = (s->squares[e] - mean_of(s, e) * s->sum[e]) / (n - 1);
	/* for equal values only a rounding error is left */
	return variance > 1e-12 * s->squares[e] / n ? variance : 0;
}

/* Returns the variance of its mean. */
static double chance_of(const struct ip_stratum *s, unsigned e)
{
	return variance_of(s, e) / size_of(s, e);
}

/* Returns the variance of a mean, from the squared differences to the means of its neighbours
 * (negative: no neighbour). Negative: not known. */
static double spread_of(double before, double after)
{
	if (before >= 0 && after >= 0)
		return (before < after ? before : after) / LESSER;
	return (before > after ? before : after) / 2;
}

/* Rules 1, 4 and 5: last has its neighbours. after: squared differences to the next stratum; NULL:
 * there is none. */
static void fold(struct ip_strata *s, unsigned e, const double *after)
{
	double n = size_of(&s->last, e), weight = weight_of(&s->last, e), within, between;

	if (n < 1)
		return;
	s->weight[e] += weight;
	s->far[e] += s->last.far;
	s->means[e]++;
	s->means_sum[e] += mean_of(&s->last, e);
	s->means_squares[e] += square(mean_of(&s->last, e));
	s->chance[e] += chance_of(&s->last, e);
	between = spread_of(s->n ? s->before[e] : -1, after ? after[e] : -1);
	if (between >= 0) {
		s->inner_weight[e] += weight;
		s->between[e] += weight * between;
		s->between_squares[e] += square(weight * between);
	}
	s->calls[e] += s->last.calls;
	s->total[e] += s->last.calls * mean_of(&s->last, e);
	/* The variance of a single value is not known. It is taken as in the other strata. */
	if (n < 2)
		return;
	within = weight * variance_of(&s->last, e) / n;
	s->within_weight[e] += weight;
	s->within[e] += within;
	s->within_squares[e] += square(within) / (n + 1);
}

/* Returns the share of the calls between last and open that is like those of last: for x of the
 * time they came as often as in last, and then as in open. *ret_far: they came as in neither. */
static double share_of(const struct ip_strata *s, bool *ret_far)
{
	double before = s->last.rate, behind = s->open.rate,
	       rate = rate_of(s->last.rest, s->last.rest_s), x;

	*ret_far = false;
	/* no rate is known for samples that ended when no call began */
	if (rate <= 0 || before <= 0 || behind <= 0)
		return 0.5;
	*ret_far = !are_alike(rate, before) && !are_alike(rate, behind) &&
		   (rate > before) == (rate > behind);
	if (*ret_far || are_alike(before, behind))
		return 0.5;
	x = (rate - behind) / (before - behind);
	x = x < 0 ? 0 : x > 1 ? 1 : x;
	return x * before / (x * before + (1 - x) * behind);
}

/* Returns the variance of the total of the calls between last and open, of which share is taken to
 * be last's (a half: it may be anything). The difference of the means may be chance: step is
 * without their own variances. */
static double bridge(double rest, double share, double step)
{
	return step > 0 ? square(rest) * share * (1 - share) * step / 3 : 0;
}

static void close_open(struct ip_strata *s, unsigned nevents)
{
	double after[IP_FPERF_EVENTS];

	for (unsigned e = 0; e < IP_FPERF_EVENTS; e++)
		after[e] = -1;
	s->open.rate = rate_of(s->open.calls, s->open.calls_s);
	if (s->last.n) {
		double rest = s->last.rest, share;
		bool far;

		share = share_of(s, &far);
		if (far)
			s->last.far += rest * rest;
		s->last.calls += rest * share;
		s->open.calls += rest * (1 - share);
		s->last.rest = 0;
		for (unsigned e = 0; e < nevents; e++) {
			if (size_of(&s->open, e) && size_of(&s->last, e)) {
				double step;

				after[e] = square(mean_of(&s->open, e) - mean_of(&s->last, e));
				step = after[e] - chance_of(&s->last, e) - chance_of(&s->open, e);
				s->bridges[e] += bridge(rest, share, step);
				if (are_alike(s->last.rate, s->open.rate)) {
					s->steps[e]++;
					s->steps_squares[e] += step;
				}
			}
			/* a stratum with far more or far fewer calls per second is of another
			 * phase */
			if (!are_alike(s->last.rate, s->open.rate))
				after[e] = -1;
			fold(s, e, after);
		}
		s->n++;
	}
	for (unsigned e = 0; e < nevents; e++)
		s->before[e] = after[e];
	s->last = s->open;
	s->open = (struct ip_stratum){0};
}

void ip_stratum_divide(struct ip_stratum *s, uint32_t every, bool used_up, double at_s,
		       double seconds, double cpu_s)
{
	double calls = s->calls, sampled = s->n * (double)every, error = DRAWN * every * sqrt(s->n),
	       cpus, idle, low, high, like;

	s->calls_s = cpu_s;
	s->rest = s->rest_s = 0;
	if (!used_up || sampled >= calls)
		return;
	/* How much of the time in which the process ran was before the quota was used up. */
	cpus = seconds > 0 ? ceil(cpu_s / seconds - 0.1) : 1;
	cpus = cpus > 1 ? cpus : 1;
	idle = cpus * seconds - cpu_s;
	high = cpus * at_s < cpu_s ? cpus * at_s : cpu_s;
	low = cpus * at_s - idle;
	low = low < 0 ? 0 : low < high ? low : high;
	/* The number of calls in that time is known except for chance. Its length is known except
	 * for other processes on the CPU. If the rate may have been the same as in the rest, it is
	 * taken to be the same. */
	like = cpu_s * sampled / calls;
	like = like < low ? low : like > high ? high : like;
	s->calls_s = like;
	s->rest_s = cpu_s - like;
	if (cpu_s > 0 && fabs(calls * like / cpu_s - sampled) <= error)
		sampled = calls * like / cpu_s;
	s->calls = sampled > s->n ? sampled : s->n;
	s->rest = calls - s->calls;
}

void ip_strata_add(struct ip_strata *s, unsigned nevents, const struct ip_stratum *stretch,
		   bool first)
{
	struct ip_stratum more = *stretch;

	s->samples += more.n;
	for (unsigned e = 0; e < nevents; e++)
		s->missing[e] += more.missing[e];
	if (first) { /* rule 3 */
		join(&s->first, &more);
		s->first.calls = s->first.n;
		s->first.rest = 0;
		more = (struct ip_stratum){.rest = stretch->calls + stretch->rest - stretch->n,
					   .rest_s = stretch->calls_s + stretch->rest_s};
		more.rest = more.rest > 0 ? more.rest : 0;
	}
	if (!more.n) { /* no call could be a sample */
		more.rest += more.calls;
		more.rest_s += more.calls_s;
		more.calls = more.calls_s = 0;
	}
	if (more.n && !s->open.n && !s->last.n &&
	    is_like(rate_of(s->open.rest, s->open.rest_s), &more))
		s->front = s->open.rest;
	if (!more.n && !s->open.n && s->last.n)
		s->last.rest += more.rest, s->last.rest_s += more.rest_s;
	else
		join(&s->open, &more);
	if (s->open.n < IP_STRATUM_LEAST)
		return;
	/* Calls that began before the probes came in have samples, but were not counted. */
	if (s->open.calls < s->open.n)
		s->open.calls = s->open.n;
	close_open(s, nevents);
}

/* Adds what has not been closed to a stratum. *ret_behind: calls after the last sample that came as
 * often as those before. */
static void settle(struct ip_strata *s, double *ret_behind)
{
	*ret_behind = 0;
	if (s->last.n) {
		join(&s->last, &s->open);
	} else {
		/* Too few samples for a stratum. The first samples then stand for these calls,
		 * too. */
		if (s->open.n < 2)
			join(&s->open, &s->first), s->first = (struct ip_stratum){0};
		s->last = s->open;
	}
	s->open = (struct ip_stratum){0};
	if (is_like(rate_of(s->last.rest, s->last.rest_s), &s->last))
		*ret_behind = s->last.rest;
	else
		s->last.far += square(s->last.rest);
	s->last.calls += s->last.rest;
	s->last.rest = 0;
	if (s->last.calls < s->last.n)
		s->last.calls = s->last.n;
}

/* Returns the variance between the means of the program's strata (rule 6). */
static double variety_of(const struct ip_strata *s, unsigned e)
{
	double n = s->means[e], variance;

	if (n < 2)
		return 0;
	variance = (s->means_squares[e] - square(s->means_sum[e]) / n) / (n - 1) - s->chance[e] / n;
	return variance > 1e-12 * s->means_squares[e] / n ? variance : 0;
}

/* Rule 6: returns the variance of the total of so many calls at an end. If means drift all the
 * time, neighbours differ by less than chance. Then it follows from how far they have drifted in
 * all. */
static double end_variance(const struct ip_strata *s, unsigned e, double rest, double variety)
{
	double calls = s->calls[e] / s->means[e]; /* calls of one step */
	double walk = s->steps[e] > 0 ? s->steps_squares[e] / s->steps[e] * (1 + rest / calls) / 3
				      : 0,
	       drift = 3 * variety * square(rest / s->calls[e]),
	       variance = walk > drift ? walk : drift;

	if (rest <= 0 || variance <= 0)
		return 0;
	return square(rest) * (variance < variety ? variance : variety);
}

/* Returns the variance of the total of all strata, without bridges; negative: not known.
 * *ret_freedom: degrees of freedom by Satterthwaite, corrected for the squares of estimates being
 * too large. */
static double own_variance(const struct ip_strata *s, unsigned e, double samples,
			   double *ret_freedom)
{
	bool known = s->weight[e] <= 0 || s->within_weight[e] > 0;
	double variance = s->within_weight[e] > 0
				  ? s->within[e] * s->weight[e] / s->within_weight[e]
				  : 0,
	       between;

	*ret_freedom = s->within_squares[e] > 0 ? square(s->within[e]) / s->within_squares[e] - 2
						: samples;
	if (s->n < BETWEEN_LEAST || s->means[e] < 2)
		return known ? variance : -1;
	if (s->inner_weight[e] < ENOUGH * s->weight[e]) {
		/* Hardly any stratum has a neighbour that counts. They are taken as if they had no
		 * order. */
		between = s->weight[e] * (variety_of(s, e) + s->chance[e] / s->means[e]);
		if (known && between <= variance)
			return variance;
		*ret_freedom = s->means[e] - 1;
		return between;
	}
	between = s->between[e] * s->weight[e] / s->inner_weight[e];
	if (known && between <= variance)
		return variance;
	*ret_freedom =
		s->between_squares[e] > 0 ? square(s->between[e]) / s->between_squares[e] : 0;
	/* If hardly any strata differ from their neighbours, these few would decide alone. */
	*ret_freedom = *ret_freedom > s->n / 3. ? *ret_freedom : s->n / 3.;
	return between;
}

/* Rule 8: returns half the width, from the variance of the mean. */
static double skewed_width(double mean, double variance, double samples, bool counts)
{
	double size, cv, skewness;

	if (mean <= 0 || variance <= 0)
		return 0;
	if (counts) {
		size = variance / mean;
		return 1.35 * size + T95_ONE_SIDE * sqrt(variance + 0.68 * size * size);
	}
	cv = sqrt(samples * variance) / mean;
	skewness = 2 * cv / sqrt(samples);
	return sqrt(variance) *
	       (T95_ONE_SIDE * (1 + 1.5 / samples) + (2 * square(T95_ONE_SIDE) + 1) / 6 * skewness);
}

double ip_strata_mean(const struct ip_strata *strata, unsigned e, double one, double *ret_ci)
{
	struct ip_strata s = *strata;
	double calls, samples, first, mean, freedom, variance, behind, variety, far, all, least;

	*ret_ci = -1;
	samples = s.samples > s.missing[e] ? s.samples - s.missing[e] : 0;
	if (!samples)
		return NAN;
	settle(&s, &behind);
	fold(&s, e, NULL);
	s.n++;
	calls = s.calls[e] + size_of(&s.first, e);
	first = size_of(&s.first, e); /* they stand for themselves */
	mean = (s.total[e] + s.first.sum[e]) / calls;
	if (samples < 2)
		return mean;
	variance = own_variance(&s, e, samples, &freedom);
	if (variance < 0)
		return mean;
	variety = variety_of(&s, e);
	far = s.far[e] * variety + end_variance(&s, e, s.front, variety) +
	      end_variance(&s, e, behind, variety);
	all = variance + s.bridges[e] + far;
	/* The limits of a bridge's error are known. */
	if (variance > 0 || far > 0)
		freedom = square(all) / (square(variance) / (freedom > 1 ? freedom : 1) +
					 square(far) / (s.means[e] > 2 ? s.means[e] - 1 : 1));
	else
		freedom = samples;
	freedom = freedom < 1e6 ? freedom : 1e6;
	all /= calls * calls;
	*ret_ci = ip_fperf_t95(freedom) * sqrt(all);
	least = skewed_width(mean, all, samples, one > 0);
	if (*ret_ci < least)
		*ret_ci = least; /* rule 8 */
	least = RULE_OF_THREE / (samples > first ? samples - first : samples) *
		(1 - samples / calls);
	least *= all <= 0 && mean > one ? mean : one;
	if (one > 0 && *ret_ci < least)
		*ret_ci = least; /* rule 7 */
	return mean;
}
