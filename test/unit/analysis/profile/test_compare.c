/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of significance: known figures, how often they cry wolf where nothing differs, and what
 * they find where something does.
 */
#include "test/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/profile/compare.h"

struct side {
	struct ip_histogram histogram;
	struct ip_batches batches;
};

static void add(struct side *s, uint64_t value)
{
	ip_histogram_add(&s->histogram, value);
	ip_batches_add(&s->batches, value);
}

static struct ip_comparison compare(struct side *a, struct side *b)
{
	const struct ip_durations first = {.histogram = &a->histogram, .batches = &a->batches};
	const struct ip_durations second = {.histogram = &b->histogram, .batches = &b->batches};
	struct ip_comparison ret;

	assert_int_equal(ip_compare(&first, &second, &ret), 0);
	ip_histogram_deinit(&a->histogram);
	ip_histogram_deinit(&b->histogram);
	*a = *b = (struct side){0};
	return ret;
}

/* A sequence of its own: the same everywhere. */
static uint64_t state;

static double uniform(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(state >> 11) / (1ull << 53);
}

/* Latencies have long tails: this one is log-normal. */
static double normal(void)
{
	return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

static uint64_t latency(double middle)
{
	return (uint64_t)(middle * exp(0.7 * normal()));
}

/* Without ties the variance is (n1 + n2 + 1) / (12 n1 n2). */
static void test_known_figures(void **unused)
{
	static const uint64_t first[] = {11, 13, 17, 23, 29, 31, 37, 41},
			      second[] = {1, 2, 3, 12, 14, 19, 24, 43};
	struct side a = {0}, b = {0};
	struct ip_comparison c;
	unsigned wins = 0;

	for (unsigned i = 0; i < 8; i++)
		for (unsigned k = 0; k < 8; k++)
			wins += second[k] > first[i];
	for (unsigned i = 0; i < 8; i++) {
		add(&a, first[i]);
		add(&b, second[i]);
	}
	c = compare(&a, &b);
	assert_true(c.n1 == 8 && c.n2 == 8 && isnan(c.tail));
	assert_true(fabs(c.superior - wins / 64.0) < 1e-12);
	assert_true(fabs(c.location -
			 erfc(fabs(wins / 64.0 - 0.5) / sqrt(17.0 / (12 * 64)) / M_SQRT2)) < 1e-12);
	/* ties: 8 x {5} against 4 x {5}, 4 x {6}: 12 equal, 4 equal */
	for (unsigned i = 0; i < 8; i++) {
		add(&a, 5);
		add(&b, 5 + i / 4);
	}
	c = compare(&a, &b);
	assert_true(fabs(c.superior - 0.75) < 1e-12);
	assert_true(
		fabs(c.location -
		     erfc(0.25 / sqrt(17.0 / (12 * 64) * (1 - (12.0 * 143 + 4 * 15) / (16 * 255))) /
			  M_SQRT2)) < 1e-12);
	/* nothing but ties */
	for (unsigned i = 0; i < 100; i++) {
		add(&a, 5);
		add(&b, 5);
	}
	c = compare(&a, &b);
	assert_true(c.superior == 0.5 && c.location == 1);
	for (unsigned i = 0; i < 7; i++) {
		add(&a, 5);
		add(&b, 50);
	}
	assert_true(isnan(compare(&a, &b).location));
}

#define ROUNDS 400

/* How often the tests call chance a difference, at 5 %: shares of ROUNDS. */
static void cry_wolf(unsigned n1, unsigned n2, double memory, double *ret_location,
		     double *ret_tail)
{
	unsigned location = 0, tail = 0, tails = 0;

	state = 42 + n1;
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct side a = {0}, b = {0};
		struct ip_comparison c;

		for (unsigned side = 0; side < 2; side++) {
			double phase = normal();

			for (unsigned i = 0; i < (side ? n2 : n1); i++) {
				phase = memory * phase + sqrt(1 - memory * memory) * normal();
				add(side ? &b : &a, (uint64_t)(1000 * exp(0.7 * phase)));
			}
		}
		c = compare(&a, &b);
		location += c.location < 0.05;
		tails += !isnan(c.tail);
		tail += c.tail < 0.05;
	}
	*ret_location = (double)location / ROUNDS;
	*ret_tail = tails ? (double)tail / tails : 0;
}

static void test_nothing_differs(void **unused)
{
	double location, tail;

	/* three standard deviations above 5 % are 8.3 % of 400 */
	cry_wolf(20, 25, 0, &location, &tail);
	assert_true(location < 0.085);
	cry_wolf(1500, 900, 0, &location, &tail);
	assert_true(location < 0.085 && tail < 0.085);
	/* calls that are like those before them: taken for independent ones half of the comparisons
	 * would be significant */
	cry_wolf(5000, 4000, 0.95, &location, &tail);
	assert_true(location < 0.12 && tail < 0.12);
}

static void test_what_differs_is_found(void **unused)
{
	struct side a = {0}, b = {0};
	struct ip_comparison c;

	state = 7;
	for (unsigned i = 0; i < 3000; i++) {
		add(&a, latency(1000));
		add(&b, latency(1150));
	}
	c = compare(&a, &b);
	assert_true(c.location < 1e-6 && c.superior > 0.53 && c.superior < 0.58);
	/* one of a hundred is stuck a hundred times as long: the first test cannot see it */
	for (unsigned i = 0; i < 5000; i++) {
		add(&a, latency(1000));
		add(&b, latency(i % 100 == 50 ? 100000 : 1000));
	}
	c = compare(&a, &b);
	assert_true(c.location > 0.01 && c.tail < 1e-6 && c.tail2 > 1.3 * c.tail1);
}

static void test_adjusted(void **unused)
{
	/* Benjamini & Hochberg: p m / rank, from the largest down never growing */
	const double p[] = {0.01, 0.5, NAN, 0.02, 0.04, 0.041},
		     wanted[] = {0.05, 0.5, NAN, 0.05, 0.05125, 0.05125};
	double q[6];

	assert_int_equal(ip_compare_adjust(p, 6, q), 0);
	for (unsigned i = 0; i < 6; i++)
		assert_true(isnan(wanted[i]) ? isnan(q[i]) : fabs(q[i] - wanted[i]) < 1e-12);
}

static void test_batches(void **unused)
{
	struct ip_batches b = {0};
	uint64_t calls = 0;

	for (unsigned i = 0; i < 1000; i++)
		ip_batches_add(&b, 10);
	assert_true(b.size == 32 && b.n == 32 && b.in_last == 1000 - 31 * 32);
	for (unsigned i = 0; i < b.n; i++) {
		calls += b.batches[i].rows[0];
		assert_true(b.batches[i].sum == 10.0 * b.batches[i].rows[0]);
	}
	assert_int_equal(calls, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_figures), cmocka_unit_test(test_nothing_differs),
		cmocka_unit_test(test_what_differs_is_found), cmocka_unit_test(test_adjusted),
		cmocka_unit_test(test_batches)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
