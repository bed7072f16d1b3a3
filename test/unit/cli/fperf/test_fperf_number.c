/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers in the tables of fperf.
 */
#include <math.h>

#include "cli/fperf/fperf_number.h"
#include "test/unit/test.h"

static void test_numbers(void **state)
{
	static const struct {
		double n;
		const char *text;
	} known[] = {{0, "0"},	   {12, "12"},		 {999, "999"}, {1234567, "1.23M"},
		     {0.5, "0.5"}, {0.00012, "0.00012"}, {NAN, "-"},   {2e5, "200k"}};
	char buffer[24];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		assert_string_equal(fperf_short_number(known[i].n, buffer), known[i].text);
}

/* What lies within its interval has no more decimals than that. */
static void test_means(void **state)
{
	static const struct {
		double mean, ci;
		const char *text;
	} known[] = {
		{6.52e-5, 0.0936, "0.0001"},
		{6.52e-6, 0.0936, "0"},
		{6.52e-5, 1.5, "0"},
		{6.52e-5, 1e9, "0"},
		{0, 0.0936, "0"},
		{-6.52e-5, 0.0936, "-0.0001"},
		{6.52e-5, 1e-5, "6.52e-05"}, /* it is no zero */
		{6.52e-5, 0, "6.52e-05"},
		{6.52e-5, -1, "6.52e-05"},
		{0.5, 0.7, "0.5"},
		{1234567, 2e7, "1.23M"},
		{NAN, 0.1, "-"},
		{6.52e-5, NAN, "6.52e-05"},
	};
	char buffer[24];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		assert_string_equal(fperf_short_mean(known[i].mean, known[i].ci, buffer),
				    known[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers),
					   cmocka_unit_test(test_means)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
