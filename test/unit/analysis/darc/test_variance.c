/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variances of nodes against those that are known.
 */
#include <math.h>
#include <stdlib.h>

#include "analysis/darc/variance.h"
#include "test/unit/test.h"

#define N 1000u

static void assert_near(double got, double wanted, double off)
{
	if (!(fabs(got - wanted) <= off))
		fail_msg("%f is too far from %f", got, wanted);
}

/* Node 1 has 100 or 0 ticks, node 2 twice as many in the same operations, node 3 always 1000. */
static void test_known(void **state)
{
	struct ip_darc_operations operations = {0};
	struct ip_variances v;
	struct ip_ftree ftree;

	(void)state;
	assert_int_equal(ip_ftree_begin(&ftree, 1), 0);
	for (uint32_t function = 2; function < 5; function++)
		assert_int_equal(ip_ftree_child(&ftree, 0, function, 0, 0), function - 1);
	for (unsigned i = 0; i < N; i++) {
		struct ip_darc_operation o = {.ticks = 1000 + (i % 2) * 300,
					      .own = calloc(3, sizeof(*o.own))};

		assert_non_null(o.own);
		o.own[o.nown++] = (struct ip_darc_own){3, 1000, 1};
		if (i % 2) {
			o.own[o.nown++] = (struct ip_darc_own){1, 100, 1};
			o.own[o.nown++] = (struct ip_darc_own){2, 200, 1};
		}
		assert_int_equal(ip_darc_operations_add(&operations, &o), 0);
	}
	assert_int_equal(ip_variances_find(&ftree, &operations, &v), 0);
	assert_near(v.mean, 1150, 1e-6);
	assert_near(v.variance, 150 * 150, 1e-3);
	assert_int_equal(v.nodes[0].node, 2);
	assert_near(v.nodes[0].share, 2.0 / 3, 1e-6);
	assert_near(v.nodes[0].variance, 100 * 100, 1e-3);
	assert_int_equal(v.nodes[1].node, 1);
	assert_near(v.nodes[1].share, 1.0 / 3, 1e-6);
	assert_near(v.nodes[2].share + v.nodes[3].share, 0, 1e-6);
	assert_int_equal(v.npairs, 1);
	/* 2 * 50 * 100 of 150 * 150 */
	assert_near(v.pairs[0].share, 10000.0 / 22500, 1e-6);
	ip_variances_clear(&v);
	ip_darc_operations_clear(&operations);
	ip_ftree_clear(&ftree);
}

/* All calls take the same: nothing is divided by zero. */
static void test_none(void **state)
{
	struct ip_darc_operation o = {.ticks = 5};
	struct ip_darc_operations operations = {.items = &o, .n = 1};
	struct ip_variances v;
	struct ip_ftree ftree;

	(void)state;
	assert_int_equal(ip_ftree_begin(&ftree, 1), 0);
	assert_int_equal(ip_variances_find(&ftree, &operations, &v), 0);
	assert_true(v.variance == 0 && v.nodes[0].share == 0 && !v.npairs);
	ip_variances_clear(&v);
	ip_ftree_clear(&ftree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
