// SPDX-License-Identifier: Apache-2.0
/*
 * FPerf's policy against functions that are made up, and its arithmetic against what is known.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fperf/account.h"
#include "fperf/confidence.h"
#include "fperf/events.h"
#include "fperf/leaky_bucket.h"
#include "test/unit/fperf_world.h"
#include "test/unit/test.h"

/* From a call a second to four million, so that there always are some at the border. */
static void test_borders_are_not_crossed_all_the_time(void **state)
{
	static const double budgets[] = {0.0005, 0.005, 0.02, 0.05};
	struct world w;

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(*budgets); b++) {
		double all = 0;

		begin_world(&w, 300, budgets[b]);
		for (size_t i = 0; i < w.n; i++)
			all += w.rates[i] = exp(log(4e6) * i / w.n);
		run(&w, 20);
		assert_true(w.spent <= budgets[b] * 1e9 * w.time * 1.02 + 0.002 * all * COUNT_NS +
					       300 * 2 * SAMPLE_NS + 4 * CHANGE_NS);
		end_world(&w);
	}
}

/* Twenty that would take half of the time each second, and a thousand that are called now and
 * then. */
static void test_budget_is_held(void **state)
{
	static const double budgets[] = {0.005, 0.01, 0.02, 0.05};
	struct world w;

	(void)state;
	for (size_t b = 0; b < sizeof(budgets) / sizeof(*budgets); b++) {
		begin_world(&w, 1020, budgets[b]);
		for (size_t i = 0; i < w.n; i++)
			w.rates[i] = i < 20 ? 4e6 : i % 50;
		run(&w, 20);
		/* the first look, and one window of what was saved */
		assert_true(w.spent <= budgets[b] * 1e9 * w.time * 1.02 +
					       0.002 * 20 * 4e6 * COUNT_NS + 1020 * 2 * SAMPLE_NS);
		for (size_t i = 0; i < w.n; i++)
			if (w.rates[i] > 0)
				assert_true(w.items[i].samples >= 2);
		/* those that are called now and then never go */
		for (size_t i = 20; i < w.n; i++)
			assert_true(w.items[i].live);
		end_world(&w);
	}
}

/* What becomes hot only later is found, and paid back. */
static void test_a_phase_that_changes(void **state)
{
	struct world w;

	(void)state;
	begin_world(&w, 10, 0.02);
	w.rates[3] = 100;
	run(&w, 3);
	assert_true(w.items[3].live);
	w.rates[3] = 2e7;
	run(&w, 30);
	assert_false(w.items[3].live);
	assert_true(w.spent <= 0.02 * 1e9 * w.time * 1.02 + 0.11 * 2e7 * COUNT_NS);
	end_world(&w);
}

/* None starves: hot ones have their turns. */
static void test_turns(void **state)
{
	struct world w;

	(void)state;
	begin_world(&w, 8, 0.02);
	for (size_t i = 0; i < w.n; i++)
		w.rates[i] = 1e7 * (i + 1);
	run(&w, 30);
	for (size_t i = 0; i < w.n; i++)
		assert_true(w.items[i].samples >= 30);
	assert_true(w.changes > 20);
	end_world(&w);
}

/* A budget of 2 %, of a process that keeps one CPU busy. */
static const struct ip_fperf_allowance ordinary = {.budget_ns = 2e7,
						   .credit_ns = 1e6,
						   .samples = -1,
						   .interval_s = INTERVAL,
						   .window_s = WINDOW,
						   .count_ns = COUNT_NS,
						   .sample_ns = SAMPLE_NS,
						   .change_ns = CHANGE_NS,
						   .hook_ns = HOOK_NS};

/* A call costs more of a function that is called seldom: fewer of many such stay. */
static void test_cold(void **state)
{
	enum { MANY = 1000 };
	struct ip_fperf_item items[MANY];
	struct ip_fperf_allowance allowance = ordinary;
	size_t stay[2] = {0};

	for (int cold = 0; cold < 2; cold++) {
		allowance.cold_ns = cold ? 10 * COUNT_NS : 0;
		for (size_t i = 0; i < MANY; i++)
			items[i] = (struct ip_fperf_item){
				.live = true, .calls_per_s = 600, .samples = 100, .width = 0.1};
		assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, MANY, &allowance), 0);
		for (size_t i = 0; i < MANY; i++)
			stay[cold] += items[i].stay;
	}
	assert_int_equal(stay[0], MANY);
	assert_in_range(stay[1], 1, MANY / 2);
	assert_true(ip_fperf_call_cost(1000, &allowance) > 10 * COUNT_NS);
	assert_true(ip_fperf_call_cost(1e8, &allowance) < 1.01 * COUNT_NS);
}

/* The wider an interval, the more of what is left. */
static void test_quotas(void **state)
{
	struct ip_fperf_item items[3] = {
		{.live = true, .calls_per_s = 1e4, .samples = 100, .width = 0.5},
		{.live = true, .calls_per_s = 1e4, .samples = 100, .width = 0.05},
		{.live = true, .calls_per_s = 0, .samples = 0, .width = -1},
	};
	struct ip_fperf_allowance m = ordinary;

	(void)state;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].quota > 5 * items[1].quota && items[1].quota > 0);
	assert_int_equal(items[2].quota, 2);
	assert_true((items[0].quota + items[1].quota) * SAMPLE_NS <= 2e7 * INTERVAL);
	m.samples = 10;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].quota + items[1].quota <= 10);
	/* overdrawn: nothing but the promise */
	m.samples = -1;
	m.credit_ns = -1;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].quota == 0 && items[1].quota == 0 && items[2].quota == 2);
	/* no budget: everything */
	m.budget_ns = -1;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].stay && items[0].quota == IP_FPERF_NO_LIMIT);
}

#define MANY 500

/* Where there is less than a sample for each, somebody has one, and in the end everybody. Those
 * that are hardly ever called hold up nobody. */
static void test_less_than_one_each(void **state)
{
	static struct ip_fperf_item items[MANY];
	struct ip_fperf_allowance m = ordinary;
	uint64_t least = UINT64_MAX, given;

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		items[i] = (struct ip_fperf_item){
			.live = true, .calls_per_s = i % 2 ? 100 : 1e-3, .samples = 2, .width = 2};
	/* of a program that takes a twentieth of a CPU */
	m.budget_ns /= 20;
	for (int limited = 0; limited < 2; limited++) {
		m.samples = limited ? 5 : -1;
		for (unsigned interval = 0; interval < 200; interval++) {
			assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, MANY, &m), 0);
			given = 0;
			for (size_t i = 0; i < MANY; i++) {
				given += items[i].quota;
				if (i % 2)
					items[i].samples += items[i].quota;
				items[i].width = 2 / sqrt(items[i].samples);
			}
			assert_true(given > 0 && (!limited || given <= 5));
		}
	}
	for (size_t i = 1; i < MANY; i += 2)
		least = items[i].samples < least ? items[i].samples : least;
	assert_true(least > 4);
}

/* Who was not called just now is seen when it is again: of one that is called in bursts shorter
 * than the interval there would be none but the first. */
static void test_bursts(void **state)
{
	struct ip_fperf_item items[3] = {
		{.live = true, .calls_per_s = 1e4, .samples = 100, .width = 0.5},
		{.live = true, .calls_per_s = 0, .samples = 2, .width = 2},
		{.live = true,
		 .calls_per_s = 0,
		 .samples = 1000,
		 .width = 0.01,
		 .samples_none = true},
	};
	struct ip_fperf_allowance m = ordinary;

	(void)state;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].quota > 100 && items[1].quota == 1 && items[1].every == 1 &&
		    items[2].quota == 0);
	m.credit_ns = -1;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[1].quota == 0);
}

/* So many samples a second are those of hot functions, too; and they get their part. */
static void test_samples_of_turns(void **state)
{
	struct ip_fperf_item items[3] = {
		{.live = true, .calls_per_s = 1e3, .samples = 400, .width = 0.05},
		{.live = false, .calls_per_s = 1e7, .out_s = 2, .samples = 100, .width = 0.5},
		{.live = false, .calls_per_s = 2e7, .out_s = 2, .samples = 1, .width = -1},
	};
	struct ip_fperf_allowance m = ordinary;

	(void)state;
	m.turns = true;
	m.limit_ns = m.credit_ns = 1e9;
	m.samples = 0;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].quota == 0 && items[1].stay && items[1].quota == 0);
	assert_true(items[2].stay && items[2].quota == 2); /* what is promised */
	m.samples = 6;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[1].quota + items[2].quota >= 4 &&
		    items[0].quota + items[1].quota + items[2].quota <= 6 + 2);
	m.samples = -1;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[1].quota > 6 && items[2].quota > 6);
	m.exclusive = true;
	m.samples = 6;
	m.run_ns = 1e9;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &m), 0);
	assert_true(items[0].stay && items[0].quota &&
		    items[0].quota + items[1].quota + items[2].quota <= 6 + 2);
}

/* Few samples that are all alike are not enough. */
static void test_alike(void **state)
{
	struct ip_fperf_item items[3] = {
		{.live = true, .calls_per_s = 1e4, .samples = 4, .width = 0},
		{.live = true, .calls_per_s = 1e4, .samples = 1000, .width = 0.05},
		{.live = true, .calls_per_s = 1e4, .samples = 1000, .width = 0},
	};

	(void)state;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 3, &ordinary), 0);
	assert_true(items[0].quota > 5 * items[1].quota && items[1].quota > items[2].quota &&
		    items[2].quota > 0);
}

/* Samples are of all of an interval where that is cheap, and of its beginning where it is not. */
static void test_spreading(void **state)
{
	struct ip_fperf_item items[2] = {
		{.live = true, .calls_per_s = 2e3, .samples = 100, .width = 0.5},
		{.live = true, .calls_per_s = 5e5, .samples = 100, .width = 0.5},
	};
	struct ip_fperf_allowance m = ordinary;

	(void)state;
	m.samples = 20;
	assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, 2, &m), 0);
	assert_true(items[0].quota == 10 && items[0].every >= 20 && items[0].every <= 22);
	assert_true(items[1].quota == 10 && items[1].every == 32);
}

static double normal(unsigned *seed)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += rand_r(seed) / (double)RAND_MAX;
	return sum - 6;
}

/* The interval holds the truth as often as it says. */
static void test_coverage(void **state)
{
	static const unsigned sizes[] = {2, 5, 30, 200};
	unsigned seed = 7;

	(void)state;
	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		unsigned held = 0, tries = 4000;

		for (unsigned t = 0; t < tries; t++) {
			double sum = 0, squares = 0, mean, ci;

			for (unsigned i = 0; i < sizes[k]; i++) {
				double value = 1000 + 50 * normal(&seed);

				sum += value;
				squares += value * value;
			}
			mean = ip_fperf_mean(sizes[k], sum, squares, &ci);
			held += fabs(mean - 1000) <= ci;
		}
		assert_true(held > 0.935 * tries && held < 0.965 * tries);
	}
}

static void test_means(void **state)
{
	double ci;

	(void)state;
	assert_true(isnan(ip_fperf_mean(0, 0, 0, &ci)) && ci < 0);
	assert_true(ip_fperf_mean(1, 7, 49, &ci) == 7 && ci < 0);
	assert_true(ip_fperf_mean(1000, 3000, 9000, &ci) == 3 && ci == 0);
	/* 1, 2, 3, 4, 5: 2.776 * sqrt(2.5 / 5) */
	assert_true(ip_fperf_mean(5, 15, 55, &ci) == 3 && fabs(ci - 1.963) < 0.001);
	assert_true(fabs(ip_fperf_t95(31) - 2.0395) < 0.002 &&
		    fabs(ip_fperf_t95(100) - 1.984) < 0.001);
}

static void test_gaps(void **state)
{
	struct ip_fperf_gaps g = {0};
	double ci, now = 0;

	(void)state;
	assert_true(ip_fperf_missed(&g, 1, &ci) == 0 && ci == 0);
	/* a minute in which nothing is called, and then stretches of a millisecond with gaps of
	 * 0.1 s, in all of which it is called 900 or 1100 times a millisecond */
	ip_fperf_live(&g, 0, 60);
	now = 60;
	for (int i = 0; i < 101; i++) {
		ip_fperf_live(&g, i % 2 ? 900 : 1100, 0.001);
		ip_fperf_goes(&g, now);
		now += 0.1;
		ip_fperf_comes(&g, now);
	}
	assert_true(fabs(ip_fperf_missed(&g, now, &ci) - 10.1e6) < 0.11e6);
	/* 2e5 between neighbours: 1.984 * sqrt(2e5^2 / 2 * 101 * 0.1^2) */
	assert_true(fabs(ci - 1.984 * 2e5 / sqrt(2) * sqrt(1.01)) <
		    0.02 * ci); /* nor does it say anything to come while the process has no CPU */
	ip_fperf_live(&g, 1000, 0.001);
	ip_fperf_goes(&g, now);
	ip_fperf_comes(&g, now + 0.5);
	ip_fperf_live(&g, 0, 0);
	ip_fperf_goes(&g, now + 0.5);
	assert_true(fabs(ip_fperf_missed(&g, now + 1, &ci) - 11.1e6) < 0.12e6);
	ip_fperf_comes(&g, now);
	/* out for good: as often as when it was seen last */
	ip_fperf_live(&g, 1000, 0.001);
	ip_fperf_goes(&g, now);
	assert_true(fabs(ip_fperf_missed(&g, now + 1, &ci) - 11.1e6) < 0.12e6 && ci > 1e5);
	/* once and for all, and the last look before that finds next to no more CPU time: the
	 * stretch until then still tells */
	g = (struct ip_fperf_gaps){0};
	ip_fperf_live(&g, 30000, 0.03);
	ip_fperf_live(&g, 10, 3e-8);
	ip_fperf_goes(&g, 0.03);
	assert_true(fabs(ip_fperf_missed(&g, 1.03, &ci) - 1e6) < 1e3 && ci < 0);
	/* the first is too short to tell, and there is no other: of the calls in it there are
	 * more */
	g = (struct ip_fperf_gaps){.tick = 0.004};
	ip_fperf_live(&g, 400, 1e-6);
	ip_fperf_goes(&g, 0.001);
	assert_true(fabs(ip_fperf_missed(&g, 1.001, &ci) - 1e5) < 1e3 && ci < 0);
	/* or CPU time that was told late, in which nothing was called */
	g = (struct ip_fperf_gaps){.tick = 0.004};
	ip_fperf_live(&g, 30000, 0.03);
	ip_fperf_live(&g, 0, 0.003);
	ip_fperf_goes(&g, 0.03);
	assert_true(fabs(ip_fperf_missed(&g, 1.03, &ci) - 1e6) < 1e3 && ci < 0);
}

/* Turns of many functions tell more than long ones of few: each of them has its calls counted
 * within a few seconds, though most get no sample. */
static void test_many_in_a_turn(void **state)
{
	enum { BUSY = 100 };
	struct ip_fperf_item items[BUSY];
	struct ip_fperf_allowance m = ordinary;
	size_t in[2] = {0};

	(void)state;
	m.turns = true;
	m.limit_ns = 2e7;
	m.credit_ns = 6e6;
	for (int exact = 0; exact < 2; exact++) {
		m.good_s = exact ? 0.008 : IP_FPERF_WINDOW_MAX_S;
		for (size_t i = 0; i < BUSY; i++)
			items[i] = (struct ip_fperf_item){.calls_per_s = 3e5,
							  .samples = 10,
							  .width = 0.5,
							  .out_s = 2,
							  .share = 1.0 / BUSY};
		assert_int_equal(ip_fperf_decide(&ip_fperf_bucket, items, BUSY, &m), 0);
		for (size_t i = 0; i < BUSY; i++)
			in[exact] += items[i].stay;
	}
	/* 2.1 ms a second each, of 1.8 ms */
	assert_in_range(in[0], 15, 30);
	assert_true(in[1] == BUSY);
}

/* How many of a thousand intervals hold the truth, of a function that is live for 8 ms at a
 * time, in which it is called a tenth more or less than on average; it is known to within tick
 * how long that was. */
static unsigned count_intervals(unsigned stretches, double tick, double *ret_width)
{
	enum { RUNS = 1000 };
	const double rate = 1e5, length = 0.008, gap = 0.4;
	unsigned held = 0;

	*ret_width = 0;
	for (unsigned run = 0; run < RUNS; run++) {
		struct ip_fperf_gaps g = {.tick = tick};
		double now = 0, missed = 0, ci, estimate, lag = tick * random_part();

		for (unsigned i = 0; i < stretches; i++) {
			double next = tick * random_part(), seen = length + next - lag;

			ip_fperf_live(&g, rate * length * (0.9 + 0.2 * random_part()),
				      seen > 0 ? seen : 0);
			now += length;
			ip_fperf_goes(&g, now);
			now += gap;
			missed += rate * gap;
			ip_fperf_comes(&g, now);
			lag = tick * random_part();
		}
		ip_fperf_live(&g, rate * length, length);
		estimate = ip_fperf_missed(&g, now + length, &ci);
		assert_true(ci > 0);
		held += fabs(estimate - missed) <= ci;
		*ret_width += ci / missed / RUNS;
	}
	return held;
}

static void test_intervals_of_gaps(void **state)
{
	double exact, rough;

	(void)state;
	for (unsigned stretches = 3; stretches <= 24; stretches *= 2) {
		assert_in_range(count_intervals(stretches, 0, &exact), 930, 1000);
		assert_in_range(count_intervals(stretches, 0.004, &rough), 930, 1000);
		assert_true(exact < rough / 4);
	}
	assert_true(exact < 0.05);
}

/* What a stop of --alternate has cost comes back, up to what may be saved. */
static void test_stops_are_refunded(void **state)
{
	struct ip_fperf f = {.options.budget = 0.01, .credit = {.budget = 0.01, .busy = 1}};
	double limit = ip_credit_limit(&f.credit);

	(void)state;
	f.stops_ns = 5e5;
	f.spent_ns = 9e5;
	f.credit.ns = f.credit.debt_ns = -2e5;
	ip_fperf_refund_stops(&f, 1e5);
	assert_float_equal(f.stops_ns, 1e5, 1);
	assert_float_equal(f.spent_ns, 5e5, 1);
	assert_float_equal(f.credit.ns, 2e5, 1);
	assert_float_equal(f.credit.debt_ns, 0, 1);
	f.stops_ns = 3e5;
	f.credit.ns = limit - 1e5;
	ip_fperf_refund_stops(&f, 1e5);
	assert_float_equal(f.credit.ns, limit, 1);
	f.options.budget = f.credit.budget = -1;
	f.stops_ns = 3e5;
	f.credit.ns = 0;
	ip_fperf_refund_stops(&f, 1e5);
	assert_float_equal(f.stops_ns, 1e5, 1);
	assert_float_equal(f.credit.ns, 0, 0);
}

static void test_names(void **state)
{
	const struct ip_fperf_event *e[IP_FPERF_EVENTS];

	(void)state;
	assert_int_equal(ip_fperf_events_parse("page-faults,perf::TASK-CLOCK", e), 2);
	assert_string_equal(e[0]->name, "perf::PAGE-FAULTS");
	assert_int_equal(ip_fperf_events_parse("page-faults,perf::FAULTS", e), -1);
	assert_int_equal(ip_fperf_events_parse("page-faults,", e), -1);
	assert_int_equal(ip_fperf_events_parse("nonsense", e), -1);
	assert_int_equal(ip_fperf_events_parse("instructions", e),
			 ip_fperf_why_not(ip_fperf_event_named("perf::INSTRUCTIONS")) ? -2 : 1);
	assert_int_equal(ip_fperf_events_parse(IP_FPERF_NAMES_DEFAULT, e), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_is_held),
		cmocka_unit_test(test_borders_are_not_crossed_all_the_time),
		cmocka_unit_test(test_a_phase_that_changes),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_cold),
		cmocka_unit_test(test_quotas),
		cmocka_unit_test(test_less_than_one_each),
		cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_samples_of_turns),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_spreading),
		cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_means),
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_intervals_of_gaps),
		cmocka_unit_test(test_many_in_a_turn),
		cmocka_unit_test(test_stops_are_refunded),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
