/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Distances of profiles against values that are worked out by hand, what chance is said to make of
 * them against what it makes, and what is said of few calls and of phases.
 */
#include "test/unit/test.h"

#include <math.h>
#include <string.h>

#include "analysis/profile/latency/profile_distance.h"

#define BINS 8u

static struct ip_profile_distance compare(const uint64_t *first, const uint64_t *second)
{
	const struct ip_profile a = {.calls = first}, b = {.calls = second};
	struct ip_profile_distance ret;

	ip_profile_compare(&a, &b, BINS, &ret);
	return ret;
}

/* Each with its distance and its shift. */
static void test_by_hand(void **unused)
{
	static const struct {
		uint64_t first[BINS], second[BINS];
		double distance, shift;
	} known[] = {
		{{0, 5, 5}, {0, 5, 5}, 0, 0},
		/* numbers of calls do not count: the shares are the same */
		{{0, 1, 3}, {0, 250, 750}, 0, 0},
		/* all move by one; all by all there is, downwards */
		{{0, 10}, {0, 0, 7}, 1, 1},
		{{0, 0, 0, 0, 0, 0, 0, 4}, {9}, 7, -7},
		/* a half by two */
		{{10, 0, 0}, {5, 0, 5}, 1, 1},
		/* a tenth by five, of other numbers of calls */
		{{0, 10}, {0, 90, 0, 0, 0, 0, 10}, 0.5, 0.5},
		/* from both sides into the middle: nothing is slower in the mean */
		{{1, 0, 1}, {0, 2, 0}, 1, 0},
		/* a quarter up by 3, a quarter down by 1: 0.75 + 0.25, and 0.75 - 0.25 */
		{{0, 2, 2, 0}, {1, 1, 1, 0, 1}, 0.75, 0.25},
		/* (1/2 1/2) to (1/3 1/3 1/3): cumulated 1/2 1 to 1/3 2/3 */
		{{1, 1, 0}, {1, 1, 1}, 1. / 2, 1. / 2},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct ip_profile_distance d = compare(known[i].first, known[i].second), back;

		assert_true(fabs(d.distance - known[i].distance) < 1e-12);
		assert_true(fabs(d.shift - known[i].shift) < 1e-12);
		back = compare(known[i].second, known[i].first);
		assert_true(fabs(back.distance - d.distance) < 1e-12);
		assert_true(fabs(back.shift + d.shift) < 1e-12);
	}
}

static void test_no_calls(void **unused)
{
	static const uint64_t none[BINS], some[BINS] = {0, 30};
	struct ip_profile_distance d = compare(none, some);

	assert_true(isnan(d.distance) && isnan(d.by_chance) && isnan(d.shift));
	assert_int_equal(d.n2, 30);
	assert_int_equal(ip_profile_judge(&d, NAN), IP_PROFILES_FEW);
}

/* Three times the square root of 1/4 (1/100 + 1/400), for one bound between bins. */
static void test_chance_by_hand(void **unused)
{
	static const uint64_t first[BINS] = {50, 50}, second[BINS] = {200, 200};
	struct ip_profile_distance d = compare(first, second);

	assert_true(fabs(d.by_chance - 3 * sqrt(0.25 * (0.01 + 0.0025))) < 1e-12);
}

static void test_verdicts(void **unused)
{
	static const struct {
		uint64_t first[BINS], second[BINS];
		double fine;
		enum ip_profile_verdict verdict;
	} known[] = {
		{{0, 1000}, {0, 0, 1000}, NAN, IP_PROFILES_DIFFER},
		{{0, 1000}, {0, 0, 1000}, 1, IP_PROFILES_DIFFER},
		/* a narrow peak has crossed the edge of a bin */
		{{0, 1000}, {0, 0, 1000}, 0.02, IP_PROFILES_ALIKE},
		{{0, 1000}, {0, 1000}, 0, IP_PROFILES_ALIKE},
		{{0, 100000}, {0, 95000, 5000}, NAN, IP_PROFILES_ALIKE}, /* certain, and small */
		{{0, 19}, {0, 0, 1000}, NAN, IP_PROFILES_FEW},
		{{0, 1000}, {0, 0, 19}, NAN, IP_PROFILES_FEW},
		{{0, 20}, {0, 0, 20}, NAN, IP_PROFILES_DIFFER},
		/* so few calls that are so far apart do not exclude a difference */
		{{10, 0, 0, 0, 0, 10}, {9, 0, 0, 0, 0, 11}, NAN, IP_PROFILES_UNSURE},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct ip_profile_distance d = compare(known[i].first, known[i].second);

		assert_int_equal(ip_profile_judge(&d, known[i].fine), known[i].verdict);
	}
}

/* A sequence of its own: the same everywhere. */
static uint64_t state;

static double uniform(void)
{
	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (double)(state >> 11) / (1ull << 53);
}

/* Two thirds of the calls are in two bins that are neighbours, and a third is far away. */
static unsigned bin_of(double x)
{
	return x < 0.4 ? 1 : x < 2. / 3 ? 2 : 6;
}

static void test_chance_makes_no_more(void **unused)
{
	unsigned more = 0, half = 0;

	for (unsigned i = 0; i < 2000; i++) {
		uint64_t calls[2][BINS] = {{0}};
		struct ip_profile_distance d;

		for (unsigned k = 0; k < 600; k++)
			calls[k % 3 != 0][bin_of(uniform())]++;
		d = compare(calls[0], calls[1]);
		assert_int_equal(d.n1, 200);
		more += d.distance > d.by_chance;
		half += d.distance > d.by_chance / 4;
	}
	/* one of 400, and the bound is not so far away that it could never be met */
	assert_in_range(more, 0, 15);
	assert_in_range(half, 400, 1800);
}

/* Calls that are fast for a while and slow for a while: there are as few of them as phases. */
static void test_phases(void **unused)
{
	unsigned cries = 0, taken = 0;

	for (unsigned i = 0; i < 300; i++) {
		uint64_t calls[2][BINS] = {{0}};
		uint32_t slices[2][32][BINS] = {{{0}}};
		struct ip_profile_distance d;

		for (unsigned side = 0; side < 2; side++)
			for (unsigned s = 0; s < 32; s++) {
				const unsigned bin = uniform() < 0.5 ? 1 : 4;

				calls[side][bin] += 1000;
				slices[side][s][bin] += 1000;
			}
		d = compare(calls[0], calls[1]);
		cries += ip_profile_judge(&d, NAN) == IP_PROFILES_DIFFER;
		ip_profile_compare(&(struct ip_profile){calls[0], *slices[0], 32},
				   &(struct ip_profile){calls[1], *slices[1], 32}, BINS, &d);
		taken += ip_profile_judge(&d, NAN) == IP_PROFILES_DIFFER;
	}
	assert_true(cries > 150); /* as if each call were by itself */
	assert_in_range(taken, 0, 6);
}

/* Independent calls are no phases; and slices with too few calls tell nothing. */
static void test_no_phases(void **unused)
{
	uint64_t calls[BINS] = {0};
	uint32_t slices[64][BINS] = {{0}};
	struct ip_profile_distance d, alone;

	for (unsigned i = 0; i < 64000; i++) {
		const unsigned bin = bin_of(uniform());

		calls[bin]++;
		slices[i % 64][bin]++;
	}
	alone = compare(calls, calls);
	ip_profile_compare(&(struct ip_profile){calls, *slices, 64},
			   &(struct ip_profile){calls, *slices, 64}, BINS, &d);
	assert_true(d.by_chance >= alone.by_chance && d.by_chance < 1.4 * alone.by_chance);
	ip_profile_compare(&(struct ip_profile){calls, *slices, 15},
			   &(struct ip_profile){calls, *slices, 15}, BINS, &d);
	assert_true(d.by_chance == alone.by_chance);
}

static double fine(uint64_t first, uint64_t second)
{
	struct ip_histogram a = {0}, b = {0};
	double ret;

	for (unsigned i = 0; i < 10; i++) {
		ip_histogram_add(&a, first);
		ip_histogram_add(&b, second);
	}
	ret = ip_profile_fine_distance(&a, &b);
	assert_true(ip_profile_fine_distance(&b, &a) == ret);
	ip_histogram_deinit(&a);
	ip_histogram_deinit(&b);
	return ret;
}

static void test_fine(void **unused)
{
	struct ip_histogram none = {0}, one = {0};

	assert_true(fine(1000, 1000) == 0);
	assert_true(fabs(fine(1000, 2000) - 1) < 1e-9);
	assert_true(fabs(fine(1000, 1024000) - log2(1024)) < 1e-9);
	assert_true(fabs(fine(0, 1) - 1) < 1e-9);
	/* across the edge of a power of two */
	assert_true(fabs(fine(127, 129) - log2(129 / 127.)) < 0.02);
	assert_true(fabs(fine(40, 50) - log2(50.5 / 40.5)) < 1e-9);
	ip_histogram_add(&one, 5);
	assert_true(isnan(ip_profile_fine_distance(&none, &one)));
	/* a half moves by three, the other half stays */
	ip_histogram_add(&one, 5);
	ip_histogram_add(&none, 5);
	ip_histogram_add(&none, 40);
	assert_true(fabs(ip_profile_fine_distance(&one, &none) - log2(40.5 / 5.5) / 2) < 1e-9);
	ip_histogram_deinit(&none);
	ip_histogram_deinit(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),
		cmocka_unit_test(test_no_calls),
		cmocka_unit_test(test_chance_by_hand),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_chance_makes_no_more),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_no_phases),
		cmocka_unit_test(test_fine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
