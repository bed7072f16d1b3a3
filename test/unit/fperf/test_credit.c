/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a budget allows to spend: income that follows the CPU time of the process, savings with an
 * end, and debts.
 */
#include <unistd.h>

#include "fperf/credit.h"
#include "test/unit/test.h"

#define BUDGET 0.02

static void test_savings(void **state)
{
	struct ip_credit c;
	double advance, limit;

	(void)state;
	/* a process that has just begun is taken for one that keeps a CPU busy */
	ip_credit_open(&c, BUDGET, getpid(), 0);
	assert_true(c.busy > 0 && c.busy <= 1);
	c.busy = 1;
	limit = ip_credit_limit(&c);
	advance = c.ns;
	assert_true(advance > 0 && advance < limit);
	/* a second of a sleeping process brings nothing, a second of a CPU a part of its budget */
	ip_credit_settle(&c, 0, 0);
	assert_float_equal(c.ns, advance, 1);
	c.ns = 0;
	ip_credit_settle(&c, 1e9, 0);
	assert_float_equal(c.ns, IP_CREDIT_MARGIN * BUDGET * 1e9, 1);
	/* an hour brings no more than may be saved; four busy CPUs save four times as much */
	ip_credit_settle(&c, 3600e9, 0);
	assert_float_equal(c.ns, limit, 1);
	c.busy = 4;
	assert_float_equal(ip_credit_limit(&c), 4 * limit, 1);
}

static void test_debts(void **state)
{
	struct ip_credit c = {.budget = BUDGET, .busy = 1};

	(void)state;
	ip_credit_settle(&c, 0, 5e6);
	assert_float_equal(c.ns, -5e6, 1);
	/* it is the highest since the last decision, which has not been made yet */
	assert_float_equal(c.debt_ns, 0, 1);
	c.debt_ns = c.ns;
	ip_credit_settle(&c, 0, 1e6);
	assert_float_equal(c.debt_ns, -5e6, 1);
	ip_credit_settle(&c, 5e6 / BUDGET / IP_CREDIT_MARGIN, 0);
	assert_float_equal(c.ns, -1e6, 1);
	assert_float_equal(c.debt_ns, -1e6, 1);
	ip_credit_refund(&c, 1e6);
	assert_float_equal(c.ns, 0, 1);
	assert_float_equal(c.debt_ns, 0, 1);
}

static void test_no_budget(void **state)
{
	struct ip_credit c = {.budget = -1, .busy = 1, .ns = 7};

	(void)state;
	ip_credit_settle(&c, 1e9, 1e9);
	ip_credit_refund(&c, 1e9);
	assert_float_equal(c.ns, 7, 0);
}

static void test_busy(void **state)
{
	struct ip_credit c = {.budget = BUDGET, .busy = 1};

	(void)state;
	for (int i = 0; i < 100; i++)
		ip_credit_note_busy(&c, 2e6, 1e6);
	assert_float_equal(c.busy, 2, 1e-3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_savings),
		cmocka_unit_test(test_debts),
		cmocka_unit_test(test_no_budget),
		cmocka_unit_test(test_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
