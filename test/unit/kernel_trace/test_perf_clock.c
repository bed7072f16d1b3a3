/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of one clock as times of another, whose readings are made here.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/arch/x86_64/tsc.h"
#include "kernel_trace/perf/perf_clock.h"
#include "test/unit/test.h"

static uint64_t now; /* ns */
static uint64_t step, within;
static int64_t wrong; /* ticks by which the next reading is wrong */
static unsigned calls;

/* 2.3 ticks a ns, and an offset. */
static uint64_t tsc_at(uint64_t ns)
{
	return (uint64_t)((double)ns * 2.3) + 1000000;
}

static uint64_t read_clocks(uint64_t *ret_ns, uint64_t *ret_tsc)
{
	const uint64_t took = within + (wrong ? 10000 : 0);

	now += step;
	calls++;
	*ret_ns = now;
	*ret_tsc = tsc_at(now) + wrong;
	wrong = 0;
	return took;
}

static struct ip_perf_clock begin(void)
{
	struct ip_perf_clock clock = {.read = read_clocks};

	now = 1000000;
	step = 1000;
	within = 100;
	wrong = 0;
	calls = 0;
	assert_int_equal(ip_perf_clock_begin(&clock), 0);
	return clock;
}

static void assert_near(uint64_t tsc, uint64_t wanted)
{
	assert_in_range(tsc, wanted - 3, wanted + 3);
}

static void test_times_of_a_long_run(void **state)
{
	struct ip_perf_clock clock = begin();

	(void)state;
	/* a minute, read 5 times a second, with times up to 1 s before */
	for (unsigned i = 0; i < 300; i++) {
		const uint64_t from = now;

		now += 200000000;
		for (uint64_t ns = from; ns <= now; ns += 9999999)
			assert_near(ip_perf_clock_tsc(&clock, ns), tsc_at(ns));
		if (from > 1001000000)
			assert_near(ip_perf_clock_tsc(&clock, from - 1000000000),
				    tsc_at(from - 1000000000));
	}
	assert_int_equal(clock.n, IP_PERF_READINGS);
	/* older than all readings that are kept */
	assert_near(ip_perf_clock_tsc(&clock, 2000000), tsc_at(2000000));
}

static void test_times_in_quick_turns(void **state)
{
	struct ip_perf_clock clock = begin();

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		now += 100000;
		assert_near(ip_perf_clock_tsc(&clock, now), tsc_at(now));
	}
	assert_in_range(clock.n, 15, IP_PERF_READINGS); /* of 2 s: one each 0.1 s */
}

static void test_few_readings(void **state)
{
	struct ip_perf_clock clock = begin();
	unsigned before;

	(void)state;
	now += 1000000;
	ip_perf_clock_tsc(&clock, now);
	before = calls;
	for (uint64_t ns = now; ns > now - 1000000; ns -= 100)
		assert_near(ip_perf_clock_tsc(&clock, ns), tsc_at(ns));
	assert_int_equal(calls, before); /* one serves for all that is past */
}

/* A reading that an interrupt has torn apart is not taken. */
static void test_an_interrupted_reading(void **state)
{
	struct ip_perf_clock clock = begin();

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		now += 50000000;
		wrong = 5000;
		assert_near(ip_perf_clock_tsc(&clock, now), tsc_at(now));
	}
}

static void test_a_clock_that_is_read_slowly(void **state)
{
	struct ip_perf_clock clock = {.read = read_clocks};

	(void)state;
	within = 3000; /* 1.3 us */
	assert_int_equal(ip_perf_clock_begin(&clock), -1);
	assert_non_null(strstr(ip_error_message(), "cannot be compared"));
	within = 2000;
	assert_int_equal(ip_perf_clock_begin(&clock), 0);
}

/* This machine's own clocks: where a time is found it lies between two readings of the TSC. */
static void test_real_clocks(void **state)
{
	struct ip_perf_clock clock = {0};
	unsigned right = 0, n = 0;

	(void)state;
	if (ip_perf_clock_begin(&clock) < 0)
		skip();
	for (; n < 2000; n++) {
		const struct timespec nap = {0, n % 50 ? 0 : 2000000};
		const uint64_t before = ip_tsc();
		struct timespec t;
		uint64_t after, tsc;

		clock_gettime(CLOCK_MONOTONIC_RAW, &t);
		after = ip_tsc();
		tsc = ip_perf_clock_tsc(&clock, t.tv_sec * 1000000000ull + t.tv_nsec);
		right += tsc + 100 >= before && tsc <= after + 100;
		nanosleep(&nap, NULL);
	}
	assert_in_range(right, n * 99 / 100, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times_of_a_long_run),
		cmocka_unit_test(test_times_in_quick_turns),
		cmocka_unit_test(test_few_readings),
		cmocka_unit_test(test_an_interrupted_reading),
		cmocka_unit_test(test_a_clock_that_is_read_slowly),
		cmocka_unit_test(test_real_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
