/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long a thread has waited for CPUs, at any time and in any order.
 */
#include "analysis/darc/preemption.h"
#include "test/unit/test.h"

static struct ip_thread_span spans[] = {
	{.from = 100, .state = IP_THREAD_RUNNING},  {.from = 110, .state = IP_THREAD_RUNNABLE},
	{.from = 130, .state = IP_THREAD_RUNNING},  {.from = 140, .state = IP_THREAD_BLOCKED},
	{.from = 150, .state = IP_THREAD_RUNNABLE}, {.from = 155, .state = IP_THREAD_RUNNING},
	{.from = 160, .state = IP_THREAD_RUNNABLE}};

static uint64_t until(uint64_t tsc)
{
	uint64_t sum = 0;

	for (uint64_t t = 0; t < tsc && t < 170; t++)
		sum += (t >= 110 && t < 130) || (t >= 150 && t < 155) || t >= 160;
	return sum;
}

static void test_all(void **state)
{
	const struct ip_thread_states thread = {.spans = spans, .nspans = N_ELEMENTS(spans)};
	const struct ip_states states = {.end = 170};
	struct ip_preemption p;

	(void)state;
	for (unsigned step = 1; step < 60; step += 7) {
		assert_int_equal(ip_preemption_begin(&p, &states, &thread), 0);
		for (uint64_t tsc = 0; tsc < 200; tsc += step)
			assert_int_equal(ip_preemption_until(&p, tsc), until(tsc));
		for (uint64_t tsc = 200; tsc > step; tsc -= step)
			assert_int_equal(ip_preemption_until(&p, tsc), until(tsc));
		ip_preemption_clear(&p);
	}
	assert_int_equal(ip_preemption_begin(&p, &states, NULL), 0);
	assert_int_equal(ip_preemption_until(&p, 120), 0);
	ip_preemption_clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
