/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Means and ratios.
 */
#include "fperf/confidence.h"

#include <math.h>

#define NEWEST_S 0.02
#define LEAST_S	 1e-4 /* a shorter stretch gives no rate */

double ip_fperf_t95(uint64_t freedom)
{
	static const double t[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306,
				   2.262,  2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
				   2.110,  2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
				   2.060,  2.056, 2.052, 2.048, 2.045, 2.042};

	if (!freedom)
		return t[0];
	if (freedom <= sizeof(t) / sizeof(*t))
		return t[freedom - 1];
	/* The first terms of the expansion. From here on they are right to a thousandth. */
	return 1.95996 + 2.3723 / freedom + 2.8225 / freedom / freedom;
}

double ip_fperf_mean(uint64_t n, double sum, double squares, double *ret_ci)
{
	double mean, variance;

	*ret_ci = -1;
	if (!n)
		return NAN;
	mean = sum / n;
	if (n < 2)
		return mean;
	variance = (squares - mean * sum) / (n - 1);
	/* for equal values only a rounding error is left */
	if (variance < 1e-12 * squares / n)
		variance = 0;
	*ret_ci = ip_fperf_t95(n - 1) * sqrt(variance / n);
	return mean;
}

static double rate_of(const struct ip_fperf_gaps *g)
{
	return g->stretch > 0 ? g->stretch_calls / g->stretch : 0;
}

/* A stretch is over: the gap before it has its other end. */
static void close_gap(struct ip_fperf_gaps *g)
{
	double difference = rate_of(g) - g->rate;

	if (g->waiting <= 0)
		return;
	g->calls += g->waiting * (rate_of(g) + g->rate) / 2;
	g->squares += g->waiting * g->waiting;
	g->differences += difference * difference;
	g->lengths += g->stretch;
	g->ticks += g->tick;
	g->n++;
	g->waiting = 0;
}

void ip_fperf_live(struct ip_fperf_gaps *g, double calls, double seconds)
{
	if (seconds < 0)
		seconds = 0;
	/* The older part of a long stretch says nothing about a gap after it. */
	if (g->stretch > NEWEST_S) {
		close_gap(g);
		g->rate = rate_of(g); /* the function may go out before there is more */
		g->longer = true;
		g->stretch = g->stretch_calls = 0;
	}
	g->stretch += seconds;
	g->stretch_calls += calls;
}

void ip_fperf_goes(struct ip_fperf_gaps *g, double now)
{
	/* There were no calls in a time that may belong to an older stretch, reported late. Then
	 * the rate of the older stretch is the newest that is known. */
	bool late = g->longer && !g->stretch_calls && g->stretch <= g->tick;

	if (g->stretch >= LEAST_S && !late) {
		close_gap(g);
		g->rate = rate_of(g);
	} else if (!g->n && !g->rate && g->tick > 0) {
		/* The first stretch of all: its length is not known, but it had calls, and it may
		 * be the only one. */
		g->rate = g->stretch_calls / (g->stretch + g->tick);
	}
	/* If a gap still waits, the process hardly ran while the function was in: it counts as one
	 * long gap. */
	g->since = now - g->waiting;
	g->waiting = 0;
	g->out = true;
}

void ip_fperf_comes(struct ip_fperf_gaps *g, double now)
{
	g->out = g->longer = false;
	g->waiting = now > g->since ? now - g->since : 0;
	g->stretch = g->stretch_calls = 0;
}

double ip_fperf_missed(const struct ip_fperf_gaps *gaps, double now, double *ret_ci)
{
	struct ip_fperf_gaps g = *gaps;
	double last, missed;

	if (!g.out && g.stretch >= LEAST_S)
		close_gap(&g);
	/* without another end the rate before the gap is used */
	last = g.out && now > g.since ? now - g.since : g.waiting;
	g.squares += last * last;
	*ret_ci = -1;
	if (g.squares <= 0)
		*ret_ci = 0;
	else if (g.n > 1)
		/* The difference of two rates has twice the variance of one. Neighbouring gaps
		 * share a rate: in the worst case their errors are the same. */
		*ret_ci = ip_fperf_t95(g.n - 1) * sqrt(g.differences / (2 * g.n) * g.squares);
	missed = g.calls + last * g.rate;
	if (*ret_ci > 0 && g.lengths > 0)
		*ret_ci = hypot(*ret_ci, missed * 2 * g.ticks / g.lengths);
	return missed;
}
