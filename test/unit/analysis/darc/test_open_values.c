/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of open calls: which call they belong to, and how many there are.
 */
#include "analysis/darc/values/open_values.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

static const uint64_t *payload(uint64_t value)
{
	static uint64_t words[2];

	words[0] = IP_PAYLOAD_WORD(1, 0, 1);
	words[1] = value;
	return words;
}

static void check(const struct ip_kept_values *kept, uint64_t value)
{
	assert_non_null(ip_kept_values_get(kept));
	assert_int_equal(ip_kept_values_get(kept)[1], value);
}

static void test_calls(void **state)
{
	struct ip_open_values v = {.most = 3};

	(void)state;
	assert_int_equal(ip_open_values_point(&v, 9, payload(1)), 0); /* in no call */
	assert_null(ip_open_values_of(&v, 1));
	assert_int_equal(ip_open_values_enter(&v, 1, payload(10)), 0);
	assert_int_equal(ip_open_values_enter(&v, 2, NULL), 0);
	assert_int_equal(ip_open_values_point(&v, 9, payload(11)), 0);
	assert_int_equal(ip_open_values_point(&v, 9, payload(12)), 0); /* the last one counts */
	assert_int_equal(ip_open_values_point(&v, 8, payload(13)), 0);
	assert_int_equal(ip_open_values_point(&v, 8, NULL), 0);
	check(&ip_open_values_of(&v, 1)->entry, 10);
	assert_null(ip_kept_values_get(&ip_open_values_of(&v, 2)->entry));
	assert_int_equal(ip_open_values_of(&v, 1)->npoints, 0);
	assert_int_equal(ip_open_values_of(&v, 2)->npoints, 2);
	check(&ip_open_values_of(&v, 2)->points[0], 12);
	check(&ip_open_values_of(&v, 2)->points[1], 13);

	/* the next call of that number begins with nothing */
	ip_open_values_leave(&v, 2);
	assert_int_equal(ip_open_values_point(&v, 7, payload(14)), 0);
	check(&ip_open_values_of(&v, 1)->points[0], 14);
	assert_int_equal(ip_open_values_enter(&v, 2, payload(20)), 0);
	assert_int_equal(ip_open_values_of(&v, 2)->npoints, 0);
	check(&ip_open_values_of(&v, 2)->entry, 20);

	/* deeper calls are not kept, nor are points in them */
	assert_int_equal(ip_open_values_enter(&v, 3, NULL), 0);
	assert_int_equal(ip_open_values_enter(&v, 4, payload(30)), 0);
	assert_int_equal(ip_open_values_point(&v, 9, payload(31)), 0);
	assert_null(ip_open_values_of(&v, 4));
	assert_int_equal(ip_open_values_of(&v, 3)->npoints, 0);
	assert_int_equal(ip_open_values_enter(&v, 0, payload(32)), 0); /* part of no operation */
	ip_open_values_leave(&v, 1);
	assert_int_equal(ip_open_values_point(&v, 9, payload(33)), 0);
	assert_int_equal(ip_open_values_of(&v, 1)->npoints, 1);
	ip_open_values_clear(&v);
}

static void test_many_points(void **state)
{
	struct ip_open_values v = {.most = 3};

	(void)state;
	assert_int_equal(ip_open_values_enter(&v, 1, NULL), 0);
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 3 * IP_OPEN_POINTS_MOST; i++)
			assert_int_equal(ip_open_values_point(&v, i, payload(i + 100 * round)), 0);
	assert_int_equal(ip_open_values_of(&v, 1)->npoints, IP_OPEN_POINTS_MOST);
	check(&ip_open_values_of(&v, 1)->points[3], 103);
	ip_open_values_clear(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_many_points),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
