/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long others have had the CPU of a thread, at any time and in any order.
 */
#include "analysis/darc/preemption.h"
#include "test/unit/test.h"

static struct ip_thread_span spans[] = {
	{.from = 100, .state = IP_THREAD_RUNNING},  {.from = 110, .state = IP_THREAD_RUNNABLE},
	{.from = 130, .state = IP_THREAD_RUNNING},  {.from = 140, .state = IP_THREAD_BLOCKED},
	{.from = 150, .state = IP_THREAD_RUNNABLE}, {.from = 155, .state = IP_THREAD_RUNNING},
	{.from = 160, .state = IP_THREAD_RUNNABLE}};

#define THIS 7

/* by thread, then by time */
static struct ip_interrupt interrupts[] = {
	{.from = 100, .to = 160, .tid = THIS - 1},
	{.from = 102, .to = 104, .tid = THIS},
	{.from = 104, .to = 105, .tid = THIS, .before = 2},
	{.from = 131, .to = 137, .tid = THIS, .before = 3},
	{.from = 157, .to = 159, .tid = THIS, .before = 9},
	{.from = 90, .to = 120, .tid = THIS + 1},
};

static uint64_t until(uint64_t tsc, bool interrupted)
{
	uint64_t sum = 0;

	for (uint64_t t = 0; t < tsc && t < 170; t++) {
		sum += (t >= 110 && t < 130) || (t >= 150 && t < 155) || t >= 160;
		for (size_t i = 1; interrupted && i < 5; i++)
			sum += t >= interrupts[i].from && t < interrupts[i].to;
	}
	return sum;
}

static void check(const struct ip_interrupts *all, int32_t tid)
{
	const struct ip_thread_states thread = {
		.tid = tid, .spans = spans, .nspans = N_ELEMENTS(spans)};
	const struct ip_states states = {.end = 170};
	const bool interrupted = all->n && tid == THIS;
	struct ip_preemption p;

	for (unsigned step = 1; step < 60; step += 7) {
		assert_int_equal(ip_preemption_begin(&p, &states, all, &thread), 0);
		for (uint64_t tsc = 0; tsc < 200; tsc += step)
			assert_int_equal(ip_preemption_until(&p, tsc), until(tsc, interrupted));
		for (uint64_t tsc = 200; tsc > step; tsc -= step)
			assert_int_equal(ip_preemption_until(&p, tsc), until(tsc, interrupted));
		ip_preemption_clear(&p);
	}
}

static void test_all(void **state)
{
	const struct ip_interrupts none = {0},
				   all = {.items = interrupts, .n = N_ELEMENTS(interrupts)};
	const struct ip_states states = {.end = 170};
	struct ip_preemption p;

	(void)state;
	check(&none, THIS);
	check(&all, THIS);
	check(&all, THIS + 5);
	assert_int_equal(ip_preemption_begin(&p, &states, &all, NULL), 0);
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
