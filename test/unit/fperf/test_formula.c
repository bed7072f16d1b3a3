/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formulas of counters: those that PAPI ships, whether they are sums, and what follows from means
 * and their intervals.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "fperf/confidence.h"
#include "fperf/formula.h"
#include "test/unit/test.h"

#define HZ 2.5e9

static struct ip_formula parsed(const char *text, unsigned ncounters)
{
	struct ip_formula f;

	assert_int_equal(ip_formula_parse(text, ncounters, HZ, &f), 0);
	return f;
}

static void check_sum(const char *text, unsigned ncounters, const int32_t *expected,
		      uint32_t divisor)
{
	struct ip_formula f = parsed(text, ncounters);
	int32_t weights[IP_PMU_COUNTERS];
	uint32_t by;

	assert_true(ip_formula_weights(&f, ncounters, weights, &by));
	assert_int_equal(by, divisor);
	for (unsigned i = 0; i < ncounters; i++)
		assert_int_equal(weights[i], expected[i]);
}

static void check_no_sum(const char *text, unsigned ncounters)
{
	struct ip_formula f = parsed(text, ncounters);
	int32_t weights[IP_PMU_COUNTERS];
	uint32_t by;

	assert_false(ip_formula_weights(&f, ncounters, weights, &by));
}

static void test_sums(void **state)
{
	(void)state;
	check_sum("N0|N1|4|*|+|N2|8|*|+|N3|16|*|+|", 4, (int32_t[]){1, 4, 8, 16}, 1);
	check_sum("N0|N1|-|N2|+|N3|-", 4, (int32_t[]){1, -1, 1, -1}, 1);
	check_sum("N0|512|128|/|*|N1|+|", 2, (int32_t[]){4, 1}, 1);
	check_sum("N0|N1|2|*|+|N2|N3|+|4|*|+|", 4, (int32_t[]){1, 2, 4, 4}, 1);
	check_sum("N0|N1|N2|N3|+|+|+|", 4, (int32_t[]){1, 1, 1, 1}, 1);
	check_sum("N0|3|*|", 1, (int32_t[]){3}, 1);
	check_sum("N0|", 2, (int32_t[]){1, 0}, 1);
	/* parts of a thing: in whole numbers, divided at last */
	check_sum("N0|2|/|N1|3|/|-|", 2, (int32_t[]){3, -2}, 6);
	check_sum("N0|5|+|5|-|", 1, (int32_t[]){1}, 1);
	check_sum("N0|0|*|N1|*|", 2, (int32_t[]){0, 0}, 1);
	/* what a sum must not have */
	check_no_sum("N0|1|+|", 1);
	check_no_sum("N0|N1|*|", 2);
	check_no_sum("1|N0|/|", 1);
	check_no_sum("N0|N1|/|", 2);

	check_no_sum("N0|#|*|", 1);	  /* too large a number */
	check_no_sum("N0|1000003|/|", 1); /* too small a one */
	check_no_sum("N0|0|/|", 1);
}

static void test_refused(void **state)
{
	static const char *const texts[] = {
		"",	"|",	 "N0",	    "N0|N1|",	 "N0|+|",    "+|",
		"N2|",	"N0|x|", "N0|1.5|", "N|",	 "N0|-1|*|", "N0x|",
		"12a|", "N0|%|", "N9|",	    "N0|N1|**|", "##|",	     "N99999999999999999|"};
	struct ip_formula f;
	char many[1024] = "N0|";

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (strcmp(texts[i], "N0") != 0) /* the last bar may be missing */
			assert_int_equal(ip_formula_parse(texts[i], 2, HZ, &f), -1);
	assert_int_equal(ip_formula_parse("N0", 2, HZ, &f), 0);
	assert_int_equal(ip_formula_parse("#|", 2, 0, &f), -1);
	assert_non_null(strstr(ip_error_message(), "clock"));
	for (unsigned i = 0; i < IP_FORMULA_TOKENS / 2; i++)
		strcat(many, "N0|+|");
	assert_int_equal(ip_formula_parse(many, 2, HZ, &f), -1);
}

static void test_values(void **state)
{
	const double means[IP_PMU_COUNTERS] = {2000, 500, 40}, ci[IP_PMU_COUNTERS] = {100, 10, 4};
	struct ip_formula f;
	double half;

	(void)state;
	/* DERIVED_PS and DERIVED_ADD_PS */
	f = parsed("N1|#|*|N0|/|", 2);
	assert_true(fabs(ip_formula_value(&f, means, ci, &half) - HZ / 4) < 1);
	assert_true(fabs(half - HZ / 4 * (100 / 2000. + 10 / 500.)) < 1);
	f = parsed("N1|N2|+|#|*|N0|/|", 3);
	assert_true(fabs(ip_formula_value(&f, means, ci, &half) - HZ * 540 / 2000) < 1);
	assert_true(fabs(half - HZ * 540 / 2000 * (100 / 2000. + 14 / 540.)) < 1);
	/* one that is in it twice: N1 / (N1 + N2) */
	f = parsed("N1|N1|N2|+|/|", 3);
	assert_true(fabs(ip_formula_value(&f, means, ci, &half) - 500 / 540.) < 1e-12);
	assert_true(fabs(half - (40 * 10 + 500 * 4) / (540. * 540)) < 1e-12);
	f = parsed("N1|N2|*|", 3);
	assert_true(ip_formula_value(&f, means, ci, &half) == 20000 &&
		    fabs(half - (10 * 40 + 4 * 500)) < 1e-9);
	/* a constant is certain */
	f = parsed("3|4|-|", 3);
	assert_true(ip_formula_value(&f, means, ci, &half) == -1 && half == 0);
}

static void test_no_interval(void **state)
{
	const double means[IP_PMU_COUNTERS] = {100, 10, 0, 5}, ci[IP_PMU_COUNTERS] = {1, 10, 0, -1};
	struct ip_formula f = parsed("N0|N1|/|", 4);
	double half;

	(void)state;
	/* N1 may be 0 */
	assert_true(ip_formula_value(&f, means, ci, &half) == 10 && half < 0);
	f = parsed("1|N0|N1|/|1|+|/|", 4);
	assert_true(fabs(ip_formula_value(&f, means, ci, &half) - 1 / 11.) < 1e-12 && half < 0);
	f = parsed("N0|N2|/|", 4);
	assert_true(isnan(ip_formula_value(&f, means, ci, &half)) && half < 0);
	/* of N3 none is known */
	f = parsed("N0|N3|*|", 4);
	assert_true(ip_formula_value(&f, means, ci, &half) == 500 && half < 0);
	f = parsed("N0|2|*|", 4);
	assert_true(ip_formula_value(&f, means, ci, &half) == 200 && half == 2);
}

static double normal(void)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += rand() / (RAND_MAX + 1.0);
	return sum - 6;
}

/* Of samples with two counters, which go up and down with each other as much as together says,
 * the interval of their quotient holds the true one at least as often as it says. */
static double coverage(double together)
{
	struct ip_formula f = parsed("N1|N0|/|", 2);
	unsigned held = 0, runs = 2000, n = 40;

	for (unsigned r = 0; r < runs; r++) {
		double sum[2] = {0}, squares[2] = {0}, means[IP_PMU_COUNTERS], ci[IP_PMU_COUNTERS],
		       half, value;

		for (unsigned i = 0; i < n; i++) {
			double a = normal(),
			       b = together * a + sqrt(1 - together * together) * normal();
			const double x[2] = {1000 + 150 * a, 400 + 80 * b};

			for (int k = 0; k < 2; k++) {
				sum[k] += x[k];
				squares[k] += x[k] * x[k];
			}
		}
		for (int k = 0; k < 2; k++)
			means[k] = ip_fperf_mean(n, sum[k], squares[k], &ci[k]);
		value = ip_formula_value(&f, means, ci, &half);
		assert_true(half > 0);
		held += fabs(value - 0.4) <= half;
	}
	return (double)held / runs;
}

static void test_coverage(void **state)
{
	(void)state;
	srand(1);
	/* against each other: the bound is reached */
	assert_true(coverage(-1) > 0.93 && coverage(-1) < 0.98);
	assert_true(coverage(0) > 0.97);
	assert_true(coverage(1) > 0.99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),	 cmocka_unit_test(test_refused),
		cmocka_unit_test(test_values),	 cmocka_unit_test(test_no_interval),
		cmocka_unit_test(test_coverage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
