/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which periods of a condition are judged: none that is not whole, unless it decides already.
 */
#include "common/condition_history.h"
#include "test/unit/test.h"

#define MS	   1000000ull
#define BUCKET(ns) (64 - __builtin_clzll(ns) - IP_HIST_SHIFT)

static struct ip_condition condition;
static struct ip_condition_history history;
static struct ip_condition_durations total;
static struct ip_condition_figure figure;

static int begin(void **state)
{
	(void)state;
	memset(&history, 0, sizeof(history));
	memset(&total, 0, sizeof(total));
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_condition_clear(&condition);
	return 0;
}

/* So many calls return, of ns each; a tick is a nanosecond. */
static void calls(uint64_t n, uint64_t ns)
{
	total.calls += n;
	total.sum += n * ns;
	total.buckets[BUCKET(ns)] += n;
	if (n && ns > total.max)
		total.max = ns;
}

static bool look(uint64_t now_ms)
{
	bool met = ip_condition_history_look(&history, &condition, &total, now_ms * MS, 1, &figure);

	total.max = 0;
	return met;
}

/* What came before the first look is left out; what came after it is judged when a whole period has
 * passed, with the real length. */
static void test_a_mean_takes_a_whole_period(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("mean>1ms/1s:f", &condition), 0);
	calls(1000, 50 * MS);
	assert_false(look(1000));
	calls(100, 5 * MS);
	assert_false(look(1250));
	assert_false(look(1500));
	assert_false(look(1999));
	assert_false(history.judged);
	calls(100, MS);
	assert_true(look(2003));
	assert_true(figure.value == 3 * MS && figure.calls == 200 && figure.span_ns == 1003 * MS);
	assert_true(history.judged);
}

static void test_a_disturbance_passes(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("p99>1ms/1s:f", &condition), 0);
	calls(20, 50 * MS);
	assert_false(look(0));
	/* slow at first, but that is less than one in a hundred of the period */
	calls(5, 50 * MS);
	for (unsigned i = 1; i < 40; i++) {
		calls(500, MS / 4);
		if (look(i * 250))
			fail_msg("met at look %u by %g over %lu", i, figure.value, figure.span_ns);
	}
	assert_true(history.highest.value < MS && history.highest.calls >= 2000);
	/* the last period is what counts, not all that came before */
	calls(100, 4 * MS);
	assert_true(look(10000));
	assert_int_equal(figure.span_ns, 1000 * MS);
	assert_int_equal(figure.calls, 3 * 500 + 100);
}

static void test_too_few_calls(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("p50>1ms/1s:f", &condition), 0);
	for (unsigned i = 0; i < 20; i++) {
		assert_false(look(i * 250));
		calls(2, 9 * MS); /* eight in a period */
	}
	assert_true(history.judged && history.highest.value == 0);
}

/* Looks that come late make a period longer; the next ones are right again. */
static void test_late_looks(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("mean>1ms/1s:f", &condition), 0);
	look(0);
	look(250);
	look(500);
	calls(10, 2 * MS);
	/* the youngest look that is old enough is that of 500 */
	assert_true(look(3000));
	assert_int_equal(figure.span_ns, 2500 * MS);
	calls(10, 2 * MS);
	assert_true(look(3250)); /* that of 500 still */
	assert_int_equal(figure.span_ns, 2750 * MS);
	assert_int_equal(figure.calls, 20);
}

static void test_a_rate_decides_early(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("calls>100/1s:f", &condition), 0);
	calls(5000, MS);
	assert_false(look(0));
	calls(100, MS);
	assert_false(look(250));
	calls(1, MS);
	assert_true(look(500));
	assert_int_equal(figure.calls, 101);
	assert_int_equal(figure.span_ns, 500 * MS);
	/* again from the start: a second like the one before has 99 */
	ip_condition_history_restart(&history);
	assert_false(look(1000));
	for (unsigned i = 1; i < 30; i++) {
		calls(i % 4 ? 25 : 24, MS);
		if (look(1000 + i * 253)) /* each one comes late */
			fail_msg("met at look %u by %lu calls", i, figure.calls);
	}
	assert_true(history.highest.value > 90);
	/* more in the same number of looks, each of which comes late */
	for (unsigned i = 30; i < 34; i++) {
		calls(27, MS);
		if (look(1000 + i * 253))
			return;
	}
	fail_msg("108 calls in 1012 ms are not seen");
}

/* One call among thousands. */
static void test_a_longest_call(void **state)
{
	uint64_t now;

	(void)state;
	assert_int_equal(ip_condition_parse("max>50ms/10s:f", &condition), 0);
	calls(1, 80 * MS); /* before it began */
	assert_false(look(0));
	for (now = 250; now < 5000; now += 250) {
		calls(3000, 10000);
		assert_false(look(now));
	}
	assert_true(history.highest.value == 10000);
	calls(1, 50 * MS);
	assert_false(look(now));
	calls(3000, 10000);
	calls(1, 51 * MS);
	assert_true(look(now + 250));
	assert_true(figure.value == 51 * MS);
	assert_int_equal(figure.span_ns, 1000 * MS); /* four looks */
	/* it is not seen for ever */
	for (unsigned i = 2; i < 6; i++)
		look(now + i * 250);
	assert_false(look(now + 1500));
}

/* The first call of all is enough, and so is one that is not counted yet. */
static void test_a_longest_call_at_once(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("max>50ms:f", &condition), 0);
	assert_false(look(0));
	total.max = 51 * MS;
	assert_true(look(250));
	assert_int_equal(figure.calls, 1);
	assert_int_equal(figure.span_ns, 250 * MS);
}

/* A function that goes live again begins again. */
static void test_restart(void **state)
{
	(void)state;
	assert_int_equal(ip_condition_parse("mean>1ms/1s:f", &condition), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_false(look(i * 250));
	ip_condition_history_restart(&history);
	calls(100, 9 * MS);
	memset(&total, 0, sizeof(total)); /* its meter is another one */
	calls(5, 9 * MS);
	assert_false(look(1000));
	calls(10, MS / 2);
	assert_false(look(1250));
	assert_false(look(2000));
	assert_true(history.highest.value == MS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_mean_takes_a_whole_period, begin, end),
		cmocka_unit_test_setup_teardown(test_a_disturbance_passes, begin, end),
		cmocka_unit_test_setup_teardown(test_too_few_calls, begin, end),
		cmocka_unit_test_setup_teardown(test_late_looks, begin, end),
		cmocka_unit_test_setup_teardown(test_a_rate_decides_early, begin, end),
		cmocka_unit_test_setup_teardown(test_a_longest_call, begin, end),
		cmocka_unit_test_setup_teardown(test_a_longest_call_at_once, begin, end),
		cmocka_unit_test_setup_teardown(test_restart, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
