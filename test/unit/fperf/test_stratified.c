// SPDX-License-Identifier: Apache-2.0
/*
 * Means from samples of strata, against programs that are made up: every call's count is known, so
 * is how often the interval must hold the mean.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fperf/confidence.h"
#include "fperf/stratified.h"
#include "test/unit/test.h"

#define TRIES 600

static unsigned seed;

static double even(void)
{
	return rand_r(&seed) / (RAND_MAX + 1.0);
}

static double normal(void)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += even();
	return sum - 6;
}

/* A run: all of its calls, and what was sampled, with and without strata. */
struct run {
	struct ip_strata strata;
	double total, calls, sum, squares;
	uint64_t n;
};

static void add_stretch(struct run *r, const double *values, unsigned calls, const bool *is_sample,
			bool first)
{
	struct ip_stratum stretch = {.calls = calls};

	for (unsigned i = 0; i < calls; i++) {
		r->total += values[i];
		if (!is_sample[i])
			continue;
		stretch.n++;
		stretch.sum[0] += values[i];
		stretch.squares[0] += values[i] * values[i];
	}
	r->calls += calls;
	r->n += stretch.n;
	r->sum += stretch.sum[0];
	r->squares += stretch.squares[0];
	ip_strata_add(&r->strata, 1, &stretch, first);
}

/* n of the calls, any. */
static void choose(bool *is_sample, unsigned calls, unsigned n)
{
	memset(is_sample, 0, calls * sizeof(*is_sample));
	for (unsigned i = 0; i < calls && n; i++)
		if (even() * (calls - i) < n) {
			is_sample[i] = true;
			n--;
		}
}

struct outcome {
	double held, naive_held; /* share of the runs whose interval held the mean */
	double bias, naive_bias; /* on average, as a share of the mean */
	double width;		 /* the same */
};

static struct outcome repeat(void (*make)(struct run *r))
{
	struct outcome o = {0};

	seed = 11;
	for (int t = 0; t < TRIES; t++) {
		struct run r = {0};
		double truth, mean, ci;

		make(&r);
		truth = r.total / r.calls;
		mean = ip_strata_mean(&r.strata, 0, true, &ci);
		assert_true(ci >= 0);
		o.held += fabs(mean - truth) <= ci + 1e-12;
		o.bias += (mean - truth) / truth;
		o.width += ci / truth;
		mean = ip_fperf_mean(r.n, r.sum, r.squares, &ci);
		o.naive_held += fabs(mean - truth) <= ci;
		o.naive_bias += (mean - truth) / truth;
	}
	o.held /= TRIES;
	o.naive_held /= TRIES;
	o.bias /= TRIES;
	o.naive_bias /= TRIES;
	o.width /= TRIES;
	print_message("held %.3f (without strata %.3f), bias %+.4f (%+.4f), width %.4f\n", o.held,
		      o.naive_held, o.bias, o.naive_bias, o.width);
	return o;
}

/* Intervals of which each has calls of some mean and deviation, n of them samples. */
static void interval(struct run *r, unsigned calls, double mean, double deviation, unsigned n)
{
	double *values = calloc(calls, sizeof(*values));
	bool *is_sample = calloc(calls, sizeof(*is_sample));

	for (unsigned i = 0; i < calls; i++)
		values[i] = mean + deviation * normal();
	choose(is_sample, calls, n);
	add_stretch(r, values, calls, is_sample, false);
	free(values);
	free(is_sample);
}

static void make_steady(struct run *r)
{
	for (int i = 0; i < 20; i++)
		interval(r, 100, 1000, 100, 8);
}

static void make_short(struct run *r)
{
	for (int i = 0; i < 3; i++)
		interval(r, 200, 1000, 100, 5);
}

/* A busy phase of short calls, and an idle one of long ones; as many samples in each. */
static void make_phases(struct run *r)
{
	for (int i = 0; i < 30; i++)
		interval(r, i / 10 % 2 ? 20 : 2000, i / 10 % 2 ? 50 : 5, i / 10 % 2 ? 10 : 1, 10);
}

/* None or one sample an interval. */
static void make_sparse(struct run *r)
{
	for (int i = 0; i < 80; i++)
		interval(r, 50, 1000, 300, even() < 0.6);
}

/* The program does one thing for some time, then another, several times an interval; samples are of
 * an interval's beginning. */
static void make_clusters(struct run *r)
{
	double values[100], mean = 100;
	bool is_sample[100];

	for (int i = 0; i < 40; i++) {
		for (int k = 0; k < 100; k++) {
			if (even() < 0.03)
				mean = 50 + 100 * even();
			values[k] = mean + normal();
			is_sample[k] = k < 10;
		}
		add_stretch(r, values, 100, is_sample, false);
	}
}

/* One call in a hundred faults in a page. */
static void make_rare(struct run *r)
{
	double values[100];
	bool is_sample[100];

	for (int i = 0; i < 20; i++) {
		for (int k = 0; k < 100; k++)
			values[k] = even() < 0.01;
		choose(is_sample, 100, 5);
		add_stretch(r, values, 100, is_sample, false);
	}
	r->total += 1e-9; /* there may be none */
}

/* What test/programs/paging has in a run of which it gets little: a handful of samples of 0 to 8,
 * each as likely. */
static void make_handful(struct run *r)
{
	double values[300];
	bool is_sample[300];
	unsigned n = 2 + 3 * even();

	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 300; k++)
			values[k] = floor(9 * even());
		choose(is_sample, 300, i ? n : 0);
		is_sample[0] |= !i;
		is_sample[1] |= !i;
		add_stretch(r, values, 300, is_sample, !i);
	}
}

/* The first two calls are samples, and take ten times as long. */
static void make_cold(struct run *r)
{
	double values[1000];
	bool is_sample[1000] = {true, true};

	for (int k = 0; k < 1000; k++)
		values[k] = (k < 2 ? 1000 : 100) + 5 * normal();
	add_stretch(r, values, 1000, is_sample, true);
	for (int i = 0; i < 10; i++)
		interval(r, 1000, 100, 5, 5);
}

static void test_steady(void **state)
{
	struct outcome o = repeat(make_steady);

	(void)state;
	assert_true(o.held > 0.93 && o.held < 0.99 && fabs(o.bias) < 0.001);
	o = repeat(make_short);
	assert_true(o.held > 0.93 && o.held < 0.98);
}

static void test_phases(void **state)
{
	struct outcome o = repeat(make_phases);

	(void)state;
	assert_true(o.held > 0.93 && fabs(o.bias) < 0.01);
	/* what it is for */
	assert_true(o.naive_held < 0.05 && o.naive_bias > 2);
}

static void test_few_samples(void **state)
{
	struct outcome o = repeat(make_sparse);

	(void)state;
	assert_true(o.held > 0.93 && fabs(o.bias) < 0.005);
}

static void test_handful(void **state)
{
	struct outcome o = repeat(make_handful);

	(void)state;
	assert_true(o.held > 0.93);
}

static void test_clusters(void **state)
{
	struct outcome o = repeat(make_clusters);

	(void)state;
	assert_true(o.held > 0.92);
	assert_true(o.naive_held < 0.8); /* else the world is too kind */
}

static void test_rare_events(void **state)
{
	(void)state;
	assert_true(repeat(make_rare).held > 0.93);
}

static void test_cold_beginning(void **state)
{
	struct outcome o = repeat(make_cold);

	(void)state;
	assert_true(o.held > 0.93 && fabs(o.bias) < 0.002);
	assert_true(o.naive_bias > 0.2);
}

static struct ip_stratum stretch_of(double calls, uint64_t n, double sum, double squares)
{
	return (struct ip_stratum){.calls = calls, .n = n, .sum = {sum}, .squares = {squares}};
}

static void test_what_is_known(void **state)
{
	struct ip_strata s = {0};
	struct ip_stratum stretch;
	double ci;

	(void)state;
	assert_true(isnan(ip_strata_mean(&s, 0, true, &ci)) && ci < 0);
	/* one sample of many calls: no interval */
	stretch = stretch_of(10, 1, 7, 49);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 7 && ci < 0);
	/* each call was measured: nothing is uncertain */
	s = (struct ip_strata){0};
	stretch = stretch_of(5, 5, 15, 55);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 3 && ci == 0);
	/* a hundred that are alike, of ten thousand: three of a hundred might not be, but of times
	 * that is not said */
	s = (struct ip_strata){0};
	stretch = stretch_of(10000, 100, 300, 900);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 3 && fabs(ci - 3 * 0.03 * 0.99) < 1e-9);
	assert_true(ip_strata_mean(&s, 0, false, &ci) == 3 && ci == 0);
	/* more samples than calls: they began before */
	s = (struct ip_strata){0};
	stretch = stretch_of(0, 5, 15, 55);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 3 && ci == 0);
	/* calls of the end, without samples, count as those before */
	stretch = stretch_of(1000, 0, 0, 0);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 3 && ci > 0);
	/* 1, 2, 3, 4, 5 of a hundred: 2.776 * sqrt(2.5 / 5 * 0.95) */
	s = (struct ip_strata){0};
	stretch = stretch_of(100, 5, 15, 55);
	ip_strata_add(&s, 1, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, false, &ci) == 3 && fabs(ci - 1.9133) < 0.001);
}

/* Calls between strata go to the one that was called as often; where that cannot be told, half to
 * each, and the interval is as wide as that is uncertain. */
static void test_bridges(void **state)
{
	struct ip_stratum busy = stretch_of(1000, 10, 10, 10), idle = stretch_of(10, 10, 90, 810);
	double ci, narrow, mean;

	(void)state;
	busy.calls_s = idle.calls_s = 0.1;
	for (int times = 0; times < 2; times++) {
		struct ip_strata s = {0};

		/* 900 calls in 0.1 s: nearly all are of the busy phase */
		busy.rest = 900;
		busy.rest_s = times ? 0 : 0.1; /* 0: nobody knows */
		ip_strata_add(&s, 1, &busy, false);
		ip_strata_add(&s, 1, &idle, false);
		mean = ip_strata_mean(&s, 0, true, &ci);
		if (!times) {
			/* 899 of 900, then: (1899 + 9 * 11) / 1910 */
			assert_true(fabs(mean - 1.046) < 0.002);
			narrow = ci;
		} else {
			assert_true(fabs(mean - (1450 + 9 * 460) / 1910.) < 0.001);
			assert_true(ci > 4 * narrow && ci > 1.9);
		}
	}
	/* nothing is known of how often it was called: no division by it */
	for (int k = 0; k < 4; k++) {
		struct ip_strata s = {0};

		busy.rest = 900;
		busy.rest_s = 0.1;
		busy.calls_s = k & 1 ? 0 : 0.1;
		idle.calls_s = k & 2 ? 0 : 0.1;
		ip_strata_add(&s, 1, &busy, false);
		ip_strata_add(&s, 1, &idle, false);
		mean = ip_strata_mean(&s, 0, true, &ci);
		assert_true(mean >= 1 && mean <= 9 && ci > 0);
		busy.calls = idle.calls = 0; /* samples that began long before */
		s = (struct ip_strata){0};
		ip_strata_add(&s, 1, &busy, false);
		ip_strata_add(&s, 1, &idle, false);
		mean = ip_strata_mean(&s, 0, true, &ci);
		assert_true(mean >= 1 && mean <= 9 && ci > 0);
		busy.calls = 1000;
		idle.calls = 10;
	}
}

/* A counter that did not count in some of the samples. */
static void test_missing(void **state)
{
	struct ip_strata s = {0};
	struct ip_stratum stretch = stretch_of(100, 8, 24, 80);
	double ci;

	(void)state;
	stretch.sum[1] = 40;
	stretch.squares[1] = 400;
	stretch.missing[1] = 4;
	ip_strata_add(&s, 2, &stretch, false);
	stretch.sum[1] = stretch.squares[1] = 0;
	stretch.missing[1] = 8;
	ip_strata_add(&s, 2, &stretch, false);
	assert_true(ip_strata_mean(&s, 0, true, &ci) == 3 && ci > 0);
	assert_true(ip_strata_mean(&s, 1, true, &ci) == 10 && ci > 0);
}

/* A counter that has a value in every other stretch only, or one value in each: what nobody knows
 * is no variance of 0. */
static void test_no_values_are_no_difference(void **state)
{
	struct ip_strata all = {0}, some = {0}, single = {0};
	struct ip_stratum stretch, none;
	double ci, ci_all;

	(void)state;
	for (int i = 0; i < 24; i++) {
		double mean = i % 2 ? 90 : 110; /* alike within, and not in between */

		stretch = stretch_of(1000, 4, 4 * mean, 4 * mean * mean + 3);
		none = (struct ip_stratum){.calls = 1000, .n = 4, .missing = {4}};
		ip_strata_add(&all, 1, &stretch, false);
		ip_strata_add(&some, 1, &stretch, false);
		if (i % 3 == 2)
			ip_strata_add(&some, 1, &none, false);
		if (i % 2) {
			stretch = stretch_of(1000, 2, mean, mean * mean);
			stretch.missing[0] = 1;
		}
		ip_strata_add(&single, 1, &stretch, false);
	}
	ip_strata_mean(&all, 0, false, &ci_all);
	assert_true(ci_all > 2);
	ip_strata_mean(&some, 0, false, &ci);
	/* a single neighbour tells half of what these two do; had it been a difference of 0: 0.58
	 * of it */
	assert_in_range(1000 * ci, 700 * ci_all, 1300 * ci_all);
	ip_strata_mean(&single, 0, false, &ci);
	assert_true(ci > 2);
	/* within: of every other stretch nothing is known */
	for (int k = 0; k < 2; k++) {
		single = (struct ip_strata){0};
		for (int i = 0; i < 4; i++) {
			stretch = stretch_of(1000, 4, 400, 40000 + 3);
			ip_strata_add(&single, 1, &stretch, false);
			stretch = stretch_of(1000, 4, 100, 10000);
			stretch.missing[0] = 3;
			if (k)
				ip_strata_add(&single, 1, &stretch, false);
		}
		if (!k)
			ip_strata_mean(&single, 0, false, &ci_all);
	}
	/* each as uncertain, so of twice as many the mean is less so */
	ip_strata_mean(&single, 0, false, &ci);
	assert_true(ci > 0.5 * ci_all);
	/* single values alone: not known */
	single = (struct ip_strata){0};
	for (int i = 0; i < 4; i++)
		ip_strata_add(&single, 1, &stretch, false);
	ip_strata_mean(&single, 0, false, &ci);
	assert_true(ci < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steady),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_few_samples),
		cmocka_unit_test(test_clusters),
		cmocka_unit_test(test_rare_events),
		cmocka_unit_test(test_cold_beginning),
		cmocka_unit_test(test_what_is_known),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_bridges),
		cmocka_unit_test(test_handful),
		cmocka_unit_test(test_no_values_are_no_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
