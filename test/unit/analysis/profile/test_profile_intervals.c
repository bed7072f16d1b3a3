/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consecutive intervals: what each is compared with, by hand; and slices of time.
 */
#include "test/unit/test.h"

#include <math.h>

#include "analysis/profile/latency/latency_slices.h"
#include "analysis/profile/latency/profile_intervals.h"

/* Adds an interval with so many calls in one bin. Returns its distance; NAN: not compared. */
static double add(struct ip_profile_intervals *s, unsigned bin, uint64_t n,
		  enum ip_profile_verdict *ret)
{
	uint64_t calls[IP_LATENCY_BUCKETS] = {0};
	struct ip_profile_distance d;

	calls[bin] = n;
	*ret = ip_profile_intervals_add(s, calls, &d);
	return d.distance;
}

static void test_each_with_the_one_before(void **unused)
{
	struct ip_profile_intervals s = {0};
	enum ip_profile_verdict verdict;

	assert_true(isnan(add(&s, 7, 100, &verdict)));
	assert_int_equal(verdict, IP_PROFILES_FEW); /* there is none before the first */
	assert_true(add(&s, 7, 50, &verdict) == 0);
	assert_int_equal(verdict, IP_PROFILES_ALIKE);
	assert_true(add(&s, 10, 50, &verdict) == 3);
	assert_int_equal(verdict, IP_PROFILES_DIFFER);
	assert_true(add(&s, 10, 50, &verdict) == 0);
	assert_int_equal(verdict, IP_PROFILES_ALIKE);
	assert_true(add(&s, 7, 50, &verdict) == 3);
}

static void test_few_calls_go_together(void **unused)
{
	struct ip_profile_intervals s = {0};
	enum ip_profile_verdict verdict;

	add(&s, 7, 100, &verdict);
	assert_true(isnan(add(&s, 9, 12, &verdict)));
	assert_int_equal(verdict, IP_PROFILES_FEW);
	assert_true(isnan(add(&s, 9, 0, &verdict)));
	/* 12 by two, 12 by four */
	assert_true(fabs(add(&s, 11, 12, &verdict) - 3) < 1e-12);
	assert_int_equal(verdict, IP_PROFILES_DIFFER);
	/* the next is compared with these 24: half by four, half by two */
	assert_true(fabs(add(&s, 7, 100, &verdict) - 3) < 1e-12);
}

static void test_slices(void **unused)
{
	const struct ip_recording session = {.tsc_start = 1000, .tsc_hz = 1000000000};
	const struct ip_latency_slices s = {.n = 3, .ns = 100, .begin = 1000, .first = 2};

	assert_int_equal(ip_latency_slice_begin(&s, 0), 200);
	assert_int_equal(ip_latency_slice_begin(&s, 2), 400);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1200), 0);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1299), 0);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1300), 1);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1499), 2);
	/* what is off both ends */
	assert_int_equal(ip_latency_slice_of(&s, &session, 0), 0);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1199), 0);
	assert_int_equal(ip_latency_slice_of(&s, &session, 1500), 2);
	assert_int_equal(ip_latency_slice_of(&s, &session, UINT64_MAX), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_with_the_one_before),
		cmocka_unit_test(test_few_calls_go_together),
		cmocka_unit_test(test_slices),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
