/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strata. The rules are told in fperf_strata.h; comments here name them.
 */
#include "hotpatcher/fperf_strata.h"

#include <math.h>

#include "hotpatcher/fperf_estimate.h"

#define RULE_OF_THREE 3.0
#define ALIKE	      0.2 /* rates of calls that differ by less tell nothing */
#define BETWEEN_LEAST 6u  /* strata: the differences of fewer say too little */
/* (a - b)^2 and (b - c)^2 of three means of variance 1: the lesser one is this much, 2 - sqrt(12) / pi */
#define LESSER 0.8973

static double size_of(const struct ip_stratum *s, unsigned e)
{
	return s->n > s->missing[e] ? s->n - s->missing[e] : 0;
}

static double mean_of(const struct ip_stratum *s, unsigned e)
{
	return s->sum[e] / size_of(s, e);
}

/* Of a stratum's calls that were not measured, times its calls: what a variance of its mean counts. */
static double weight_of(const struct ip_stratum *s, unsigned e)
{
	double unmeasured = s->calls - size_of(s, e);

	return unmeasured > 0 ? s->calls * unmeasured : 0;
}

static double square(double x)
{
	return x * x;
}

static void join(struct ip_stratum *to, const struct ip_stratum *more)
{
	/* what lies between samples of one stratum is its own */
	if (more->n) {
		to->calls += to->rest;
		to->calls_s += to->rest_s;
		to->rest = to->rest_s = 0;
	}
	to->calls += more->calls;
	to->rest += more->rest;
	to->calls_s += more->calls_s;
	to->rest_s += more->rest_s;
	to->n += more->n;
	for (unsigned e = 0; e < IP_FPERF_EVENTS; e++) {
		to->missing[e] += more->missing[e];
		to->sum[e] += more->sum[e];
		to->squares[e] += more->squares[e];
	}
}

/* Variance of its samples; 0 where there is one, or none. */
static double variance_of(const struct ip_stratum *s, unsigned e)
{
	double variance, n = size_of(s, e);

	if (n < 2)
		return 0;
	variance = (s->squares[e] - mean_of(s, e) * s->sum[e]) / (n - 1);
	/* equal values leave what rounding leaves */
	return variance > 1e-12 * s->squares[e] / n ? variance : 0;
}

/* What squared differences to the neighbours (negative: it has none there) tell of a mean's variance; negative: nothing. */
static double spread_of(double before, double after)
{
	if (before >= 0 && after >= 0)
		return (before < after ? before : after) / LESSER;
	return (before > after ? before : after) / 2;
}

/* Rules 1, 4 and 5: last has its neighbours. after: differences to the next one, squared; NULL: there is none. */
static void fold(struct ip_strata *s, unsigned e, const double *after)
{
	double n = size_of(&s->last, e), weight = weight_of(&s->last, e), within, between;

	if (n < 1)
		return;
	s->weight[e] += weight;
	between = spread_of(s->n ? s->before[e] : -1, after ? after[e] : -1);
	if (between >= 0) {
		s->inner_weight[e] += weight;
		s->between[e] += weight * between;
		s->between_squares[e] += square(weight * between);
	}
	s->calls[e] += s->last.calls;
	s->total[e] += s->last.calls * mean_of(&s->last, e);
	/* of one value nobody knows the variance: it is as in the others */
	if (n < 2)
		return;
	within = weight * variance_of(&s->last, e) / n;
	s->within_weight[e] += weight;
	s->within[e] += within;
	s->within_squares[e] += square(within) / (n - 1);
}

static double rate_of(double calls, double seconds)
{
	return seconds > 0 ? calls / seconds : 0;
}

static bool are_alike(double a, double b)
{
	return fabs(a - b) <= (a + b) / 2;
}

/* Which share of the calls between last and open is as those of last: for x of the time they came as often as in last, and then as in open. */
static double share_of(const struct ip_strata *s)
{
	double before = s->last.rate, behind = s->open.rate, rate = rate_of(s->last.rest, s->last.rest_s), x;

	/* of samples that ended when no call began no rate is known */
	if (rate <= 0 || before <= 0 || behind <= 0 || fabs(before - behind) < ALIKE * (before + behind))
		return 0.5;
	x = (rate - behind) / (before - behind);
	x = x < 0 ? 0 : x > 1 ? 1 : x;
	return x * before / (x * before + (1 - x) * behind);
}

/* Variance of what calls between last and open came to, of which share is taken for last's (a half: it may be anything). That their means differ may be chance:
 * so much is in their own variances. */
static double bridge(const struct ip_strata *s, unsigned e, double rest, double share, double difference)
{
	double chance = variance_of(&s->last, e) / size_of(&s->last, e) +
			variance_of(&s->open, e) / size_of(&s->open, e);

	return difference > chance ? rest * rest * share * (1 - share) * (difference - chance) / 3 : 0;
}

static void close_open(struct ip_strata *s, unsigned nevents)
{
	double after[IP_FPERF_EVENTS];

	for (unsigned e = 0; e < IP_FPERF_EVENTS; e++)
		after[e] = -1;
	s->open.rate = rate_of(s->open.calls, s->open.calls_s);
	if (s->last.n) {
		double rest = s->last.rest, share = share_of(s);

		s->last.calls += rest * share;
		s->open.calls += rest * (1 - share);
		s->last.rest = 0;
		for (unsigned e = 0; e < nevents; e++) {
			if (size_of(&s->open, e) && size_of(&s->last, e)) {
				after[e] = square(mean_of(&s->open, e) - mean_of(&s->last, e));
				s->bridges[e] += bridge(s, e, rest, share, after[e]);
			}
			/* who calls it so much more, or less, is in another phase */
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

void ip_strata_add(struct ip_strata *s, unsigned nevents, const struct ip_stratum *stretch, bool first)
{
	struct ip_stratum more = *stretch;

	s->samples += more.n;
	for (unsigned e = 0; e < nevents; e++)
		s->missing[e] += more.missing[e];
	if (first) { /* 3 */
		join(&s->first, &more);
		s->first.calls = s->first.n;
		s->first.rest = 0;
		more = (struct ip_stratum){.rest = stretch->calls + stretch->rest - stretch->n,
					   .rest_s = stretch->calls_s + stretch->rest_s};
		more.rest = more.rest > 0 ? more.rest : 0;
	}
	if (!more.n) { /* nobody looked */
		more.rest += more.calls;
		more.rest_s += more.calls_s;
		more.calls = more.calls_s = 0;
	}
	if (!more.n && !s->open.n && s->last.n)
		s->last.rest += more.rest, s->last.rest_s += more.rest_s;
	else
		join(&s->open, &more);
	if (s->open.n < IP_STRATUM_LEAST)
		return;
	/* calls that began before the probes came have samples, and were not counted */
	if (s->open.calls < s->open.n)
		s->open.calls = s->open.n;
	close_open(s, nevents);
}

/* What has not been closed finds its place. */
static void settle(struct ip_strata *s)
{
	if (s->last.n) {
		join(&s->last, &s->open);
	} else {
		if (s->open.n < 2) /* too few by themselves: what they stand for, the first do too */
			join(&s->open, &s->first), s->first = (struct ip_stratum){0};
		s->last = s->open;
	}
	s->open = (struct ip_stratum){0};
	s->last.calls += s->last.rest;
	s->last.rest = 0;
	if (s->last.calls < s->last.n)
		s->last.calls = s->last.n;
}

double ip_strata_mean(const struct ip_strata *strata, unsigned e, double one, double *ret_ci)
{
	struct ip_strata s = *strata;
	double calls, samples, first, mean, freedom, variance, least;

	*ret_ci = -1;
	samples = s.samples > s.missing[e] ? s.samples - s.missing[e] : 0;
	if (!samples)
		return NAN;
	settle(&s);
	fold(&s, e, NULL);
	s.n++;
	calls = s.calls[e] + size_of(&s.first, e);
	first = size_of(&s.first, e); /* they stand for themselves */
	mean = (s.total[e] + s.first.sum[e]) / calls;
	if (samples >= 2) {
		bool known = s.weight[e] <= 0 || s.within_weight[e] > 0;

		variance = s.within_weight[e] > 0 ? s.within[e] * s.weight[e] / s.within_weight[e] : 0;
		freedom = s.within_squares[e] > 0 ? square(s.within[e]) / s.within_squares[e] : samples;
		if (s.n >= BETWEEN_LEAST && s.inner_weight[e] > 0) {
			double between = s.between[e] * s.weight[e] / s.inner_weight[e];

			if (between > variance || !known) {
				known = true;
				variance = between;
				freedom = s.between_squares[e] > 0
						  ? square(s.between[e]) / s.between_squares[e]
						  : 0;
				/* where hardly any differ from their neighbours these few would decide */
				freedom = freedom > s.n / 3. ? freedom : s.n / 3.;
			}
		}
		if (!known)
			return mean;
		/* how far a bridge may be off is known */
		if (s.bridges[e] > 0 && variance > 0)
			freedom *= square(1 + s.bridges[e] / variance);
		else if (s.bridges[e] > 0)
			freedom = samples;
		variance += s.bridges[e];
		freedom = freedom < 1e6 ? freedom : 1e6;
		*ret_ci = ip_fperf_t95(freedom) * sqrt(variance) / calls;
		least = RULE_OF_THREE / (samples > first ? samples - first : samples) * (1 - samples / calls);
		least *= variance == 0 && mean > one ? mean : one;
		if (one > 0 && *ret_ci < least)
			*ret_ci = least; /* 6 */
	}
	return mean;
}
