// SPDX-License-Identifier: Apache-2.0
/*
 * How often the 95 % interval of a mean holds the truth: programs that are made up, sampled as the
 * controller has it (a quota an interval, one call in `every` at random, what comes when the quota
 * is used up is not seen; intervals without a quota), many runs of each. Beside it how wide the
 * interval is: as a multiple of the error that 95 % of the runs stay below, which is as narrow as
 * it can be.
 *
 * IPROBE_TEST_FULL=1: ten times as many runs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fperf/stratified.h"
#include "test/unit/test.h"

#define TRIES	   300
#define INTERVAL_S 0.1
#define LEAST	   0.935 /* of so few runs */
#define MOST	   2.5
#define EVERY_MAX  32u

static uint64_t seed;

static double even(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (seed >> 11) / 9007199254740992.0;
}

static unsigned below(unsigned n)
{
	return even() * n;
}

static double normal(void)
{
	return sqrt(-2 * log(1 - even())) * cos(2 * M_PI * even());
}

/* A program, and what is seen of it. */
struct world {
	const char *name;
	unsigned intervals;
	double (*value)(double *state,
			double t); /* of a call at t (0 to 1); state: 0 at first, what it likes */
	double (*calls)(double t); /* an interval, as often as it is called at t; 0: not at all */
	unsigned quota;		   /* an interval */
	double blind;		   /* share of the intervals without one */
	unsigned before, after;	   /* so many at either end have none either */
	bool is_time;		   /* not a count */
	double least,
		/* share of the runs whose interval is to hold the truth; 0: LEAST; how wide it may
		 * be; 0: MOST */
		most;
};

struct sight {
	unsigned quota, every, skip;
};

static unsigned next_skip(unsigned every)
{
	return every > 1 ? 1 + below(2 * every - 1) : 1;
}

static bool is_sample(struct sight *s)
{
	if (!s->quota)
		return false;
	if (!s->skip)
		s->skip = 1 + below(s->every);
	if (--s->skip)
		return false;
	s->quota--;
	s->skip = next_skip(s->every);
	return true;
}

/* One run: *ret_error, estimate less truth; half the interval's width, negative: none. */
static double run(const struct world *w, double *ret_error)
{
	struct ip_strata strata = {0};
	struct sight s = {.quota = 2, .every = 1};
	double state = 0, total = 0, all = 0, at = even() / 100, ci, mean;

	for (unsigned i = 0; i < w->intervals; i++) {
		struct ip_stratum stretch = {0};
		unsigned calls = 0;
		double used_up = 0;

		if (i && (i < w->before || i + w->after >= w->intervals || even() < w->blind))
			s.quota = 0;
		while (at < i + 1) {
			double rate = w->calls(at / w->intervals), value;

			at += rate > 0 ? 1 / rate : 0.01;
			if (rate <= 0)
				continue;
			value = w->value(&state, at / w->intervals);
			total += value;
			calls++;
			if (!is_sample(&s))
				continue;
			used_up = at - i;
			stretch.n++;
			stretch.sum[0] += value;
			stretch.squares[0] += value * value;
		}
		all += calls;
		stretch.calls = calls;
		ip_stratum_divide(&stretch, s.every, !s.quota, used_up * INTERVAL_S, INTERVAL_S,
				  INTERVAL_S);
		if (calls)
			ip_strata_add(&strata, 1, &stretch, !strata.samples && stretch.n);
		s.quota = w->quota;
		s.every = calls / w->quota / 2 + 1;
		s.every = s.every > EVERY_MAX ? EVERY_MAX : s.every;
	}
	mean = ip_strata_mean(&strata, 0, w->is_time ? 0 : 1, &ci);
	*ret_error = mean - total / all;
	return ci;
}

static int upwards(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1
						       : *(const double *)a > *(const double *)b;
}

static unsigned tries(void)
{
	const char *full = getenv("IPROBE_TEST_FULL");

	return full && !strcmp(full, "1") ? 10 * TRIES : TRIES;
}

static bool holds(const struct world *w)
{
	unsigned n = tries(), held = 0;
	double *errors = calloc(n, sizeof(*errors)), *halves = calloc(n, sizeof(*halves)), wide,
	       share;

	seed = 88172645463325252ull;
	for (unsigned i = 0; i < n; i++) {
		double error;

		halves[i] = run(w, &error);
		held += halves[i] < 0 || fabs(error) <= halves[i] + 1e-9;
		halves[i] = halves[i] < 0 ? INFINITY : halves[i];
		errors[i] = fabs(error);
	}
	qsort(errors, n, sizeof(*errors), upwards);
	qsort(halves, n, sizeof(*halves), upwards);
	share = (double)held / n;
	wide = halves[n / 2] / errors[n * 95 / 100];
	free(errors);
	free(halves);
	print_message("%-44s %5.1f %% hold it, half of them are narrower than %.2f times the error "
		      "of 95 %%\n",
		      w->name, 100 * share, wide);
	return share >= (w->least > 0 ? w->least : LEAST) && wide <= (w->most > 0 ? w->most : MOST);
}

static double steady(double *state, double t)
{
	(void)state, (void)t;
	return 1000 + 100 * normal();
}

static double up_to_eight(double *state, double t)
{
	(void)state, (void)t;
	return below(9);
}

static double rare(double *state, double t)
{
	(void)state, (void)t;
	return even() < 0.02;
}

static double rare_nines(double *state, double t)
{
	(void)state, (void)t;
	return even() < 0.02 ? 9 : 0;
}

static double skewed(double *state, double t)
{
	(void)state, (void)t;
	return exp(normal());
}

static double drifting(double *state, double t)
{
	(void)state;
	return 1000 * (1 + t) + 100 * normal();
}

/* test/programs/paging -p: six phases. */
static double phased(double *state, double t)
{
	(void)state;
	return (unsigned)(6 * t) % 2 ? 9 : 1;
}

static double phased_noisy(double *state, double t)
{
	return phased(state, t) * 100 + 20 * normal();
}

/* Wanders about slowly. */
static double wandering(double *state, double t)
{
	(void)t;
	*state = 0.99 * *state + normal();
	return 100 + 3 * *state + normal();
}

static double a_thousand(double t)
{
	(void)t;
	return 1000;
}

static double a_hundred(double t)
{
	(void)t;
	return 80 + 40 * even();
}

static double by_phase(double t)
{
	return (unsigned)(6 * t) % 2 ? 100 : 1500;
}

/* Now and then for a while. */
static double in_bursts(double t)
{
	return fmod(5 * t, 1) < 0.25 ? 500 : 0;
}

/* Of a handful of what is as skewed as log-normal times no interval is right that does not know
 * it. Where most of a program is not seen, there may be a phase of it of which nobody knows. And
 * an interval is wide where the calls that came are of some other phase, but nobody saw which:
 * by how often they came the mean is better than it can know. */
static const struct world worlds[] = {
	{"times", 30, steady, a_thousand, .quota = 8, .is_time = true},
	{"times, few of them", 4, steady, a_thousand, .quota = 3, .is_time = true},
	{"times, one an interval", 30, steady, a_hundred, .quota = 1, .is_time = true},
	{"times, one or none an interval", 40, steady, a_hundred, .quota = 1, .blind = 0.4,
	 .is_time = true},
	{"counts up to 8", 12, up_to_eight, a_hundred, .quota = 3},
	{"counts up to 8, few samples", 5, up_to_eight, a_hundred, .quota = 2},
	{"counts up to 8, overdrawn half of the time", 20, up_to_eight, a_hundred, .quota = 3,
	 .blind = 0.5},
	{"one in 50", 20, rare, a_thousand, .quota = 5},
	{"one in 50, many samples", 40, rare, a_thousand, .quota = 12},
	{"nine in one of 50", 20, rare_nines, a_thousand, .quota = 10},
	{"nine in one of 50, many samples", 50, rare_nines, a_thousand, .quota = 20},
	{"skewed times", 20, skewed, a_thousand, .quota = 8, .is_time = true},
	{"skewed times, few of them", 6, skewed, a_thousand, .quota = 4, .is_time = true,
	 .least = 0.85},
	{"drifting times", 30, drifting, a_thousand, .quota = 5, .is_time = true},
	{"drifting times, end not seen", 30, drifting, a_thousand, .quota = 5, .after = 3,
	 .is_time = true, .most = 4},
	{"drifting times, neither end seen", 30, drifting, a_thousand, .quota = 5, .before = 4,
	 .after = 4, .is_time = true, .most = 4},
	{"wandering times", 40, wandering, a_thousand, .quota = 8, .is_time = true},
	{"wandering times, ends not seen", 40, wandering, a_thousand, .quota = 8, .before = 2,
	 .after = 2, .is_time = true},
	{"wandering times, half of it not seen", 40, wandering, a_hundred, .quota = 4, .blind = 0.5,
	 .is_time = true},
	{"phases", 37, phased, by_phase, .quota = 4, .most = 4},
	{"phases, times", 37, phased_noisy, by_phase, .quota = 4, .is_time = true},
	{"phases, one sample an interval", 37, phased, by_phase, .quota = 1, .most = 20},
	{"phases, half of it not seen", 37, phased, by_phase, .quota = 3, .blind = 0.5},
	{"phases, most of it not seen", 37, phased, by_phase, .quota = 3, .blind = 0.8,
	 .least = 0.8},
	{"phases, end not seen", 37, phased, by_phase, .quota = 3, .blind = 0.1, .after = 8,
	 .most = 12},
	{"phases, beginning not seen", 37, phased, by_phase, .quota = 3, .blind = 0.1, .before = 8},
	{"bursts", 35, up_to_eight, in_bursts, .quota = 3},
	{"bursts of wandering times", 35, wandering, in_bursts, .quota = 3, .is_time = true},
};

static void test_coverage(void **state)
{
	unsigned bad = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++)
		bad += !holds(&worlds[i]);
	assert_int_equal(bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_coverage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
