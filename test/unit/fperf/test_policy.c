// SPDX-License-Identifier: Apache-2.0
/*
 * What holds with every policy of FPerf, for some that are plugged in: the budget, and that whoever
 * is called gets samples.
 */
#include <math.h>
#include <stdlib.h>

#include "fperf/policy.h"
#include "test/policies.h"
#include "test/unit/fperf_world.h"

#define SECONDS 30

/* 20 that would take half of the time, 200 that are called now and then, and some of each kind that
 * are called only later. */
static void fill(struct world *w, bool later)
{
	for (size_t i = 0; i < w->n; i++)
		if (later || i % 10)
			w->rates[i] = i < 22 ? 4e6 : i % 50 + 1;
}

static void check_budget(const struct world *w, double before)
{
	double earned = w->budget * 1e9 * w->time, limit = SAVE_S * w->budget * 1e9;

	if (w->spent > earned + 2 * limit + w->most + before)
		fail_msg("%s: spent %.0f ms of %.0f, and no more than %.0f in one stretch",
			 w->policy->name, w->spent / 1e6, earned / 1e6, w->most / 1e6);
}

static void test_budget_and_promise(void **state)
{
	static const struct ip_fperf_policy *const policies[] = {&ip_fperf_bucket, &test_rounds,
								 &test_rate, &test_spendthrift};
	static const double budgets[] = {0.005, 0.02, 0.05};
	struct world w;

	(void)state;
	for (size_t k = 0; k < sizeof(policies) / sizeof(*policies) * 3; k++) {
		begin_world(&w, 230, budgets[k % 3]);
		w.policy = policies[k / 3];
		fill(&w, false);
		run(&w, SECONDS / 2);
		check_budget(&w, 0);
		fill(&w, true);
		run(&w, SECONDS);
		check_budget(&w, 0);
		for (size_t i = 0; i < w.n; i++)
			if (w.items[i].samples < IP_FPERF_PROMISED)
				fail_msg("%s, %g: function %zu has %lu samples", w.policy->name,
					 w.budget, i, w.items[i].samples);
		end_world(&w);
	}
}

/* Where the policies differ it shows: they are asked, and obeyed. */
static void test_policies_are_obeyed(void **state)
{
	uint64_t least[2], most[2];
	struct world w;

	(void)state;
	for (int k = 0; k < 2; k++) {
		begin_world(&w, 230, 0.02);
		w.policy = k ? &test_rounds : &test_miser;
		fill(&w, true);
		run(&w, SECONDS);
		least[k] = UINT64_MAX;
		most[k] = 0;
		for (size_t i = 0; i < 22; i++) {
			least[k] = w.items[i].samples < least[k] ? w.items[i].samples : least[k];
			most[k] = w.items[i].samples > most[k] ? w.items[i].samples : most[k];
		}
		end_world(&w);
	}
	assert_int_equal(most[0], IP_FPERF_PROMISED);
	/* fair */
	if (least[1] <= 100 || most[1] > 2 * least[1])
		fail_msg("hot ones have from %lu to %lu samples", least[1], most[1]);
}

static struct ip_fperf_allowance ordinary(void)
{
	return (struct ip_fperf_allowance){.budget_ns = 2e7,
					   .credit_ns = 1e7,
					   .limit_ns = 2e7,
					   .samples = -1,
					   .interval_s = INTERVAL,
					   .window_s = WINDOW,
					   .count_ns = COUNT_NS,
					   .sample_ns = SAMPLE_NS,
					   .change_ns = CHANGE_NS,
					   .hook_ns = HOOK_NS,
					   .turns = true};
}

static void decide_by(const struct ip_fperf_policy *policy, struct ip_fperf_item *items, size_t n,
		      const struct ip_fperf_allowance *m)
{
	assert_int_equal(ip_fperf_decide(policy, items, n, m), 0);
}

/* Each point of policy.h, against a policy that keeps none of them. */
static void test_each_point(void **state)
{
	struct ip_fperf_item items[3] = {
		{.live = true, .calls_per_s = 100, .samples = 0},
		{.live = true, .calls_per_s = 1e7, .samples = 50, .stay = true},
		{.live = false, .calls_per_s = 10, .samples = 50, .out_s = 1}};
	const uint32_t third = 2;
	struct ip_fperf_allowance m = ordinary();

	(void)state;
	/* 1 */
	m.budget_ns = -1;
	decide_by(&test_miser, items, 3, &m);
	for (int i = 0; i < 3; i++)
		assert_true(items[i].stay && items[i].quota == IP_FPERF_NO_LIMIT &&
			    items[i].every == 1);
	/* what the last decision left there is no part of this one */
	m = ordinary();
	decide_by(&test_miser, items, 3, &m);
	for (int i = 0; i < 3; i++)
		assert_true(!items[i].stay && !items[i].quota);
	/* 2: five samples, besides the promised ones */
	m.samples = 5.5;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_int_equal(items[0].quota + items[1].quota + items[2].quota, IP_FPERF_PROMISED + 5);
	assert_true(items[0].quota >= IP_FPERF_PROMISED);
	/* without an exit there are none */
	items[0].samples_none = true;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].stay && !items[0].quota);
	items[0].samples_none = false;
	/* 3 */
	m = ordinary();
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[2].stay && items[2].quota == 200);
	m.turns = false;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].stay && items[1].stay && !items[2].stay && !items[2].quota);
	/* 4 */
	m = ordinary();
	m.credit_ns = 0;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[1].stay && !items[2].stay);
	assert_true(items[0].quota == IP_FPERF_PROMISED && items[1].quota == 0);
	m.credit_ns = -1.1 * m.limit_ns;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].stay && !items[1].stay);
	/* 5 */
	m = ordinary();
	m.exclusive = true;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].quota && items[1].quota && items[2].quota);
	m.turns = false;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(!items[0].quota && !items[1].quota && !items[2].quota);
	/* 6: the first goes on in the third */
	m = ordinary();
	items[0].needs = &third;
	items[0].nneeds = 1;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].quota && items[1].quota && items[2].quota);
	m.turns = false;
	decide_by(&test_spendthrift, items, 3, &m);
	assert_true(items[0].stay && !items[2].stay && !items[0].quota && items[1].quota);
}

/* What is held to them is a policy that does not keep them: of the bucket nothing is changed,
 * unless more is overdrawn than can ever be saved up. */
static void test_the_bucket_keeps_them(void **state)
{
	enum { N = 60, TRIES = 3000 };
	struct ip_fperf_item items[N], raw[N];
	struct ip_fperf_allowance m;
	uint32_t needs[N][2];

	(void)state;
	for (int t = 0; t < TRIES; t++) {
		m = ordinary();
		m.budget_ns *= random_part() * 3;
		m.limit_ns = m.budget_ns;
		m.credit_ns = m.limit_ns * (2 * random_part() - 1);
		m.samples = t % 2 ? -1 : 200 * random_part();
		m.turns = t % 3;
		m.exclusive = t % 5 == 0;
		m.run_ns = 1e9;
		for (size_t i = 0; i < N; i++) {
			uint64_t samples =
				random_part() < 0.3 ? random_part() * 4 : random_part() * 1000;

			items[i] = (struct ip_fperf_item){
				.live = random_part() < 0.7,
				.samples_none = random_part() < 0.1,
				.calls_per_s =
					random_part() < 0.2 ? 0 : exp(log(1e7) * random_part()),
				.out_s = 3 * random_part(),
				.samples = samples,
				.width = samples > 1 ? 3 * random_part() : -1,
				.every = 1};
			items[i].out_s *= !items[i].live;
			items[i].hidden = items[i].samples_none && i % 2;
			needs[i][0] = (i + 1) % N;
			needs[i][1] = (i + 1 + (size_t)(random_part() * (N - 2))) % N;
			items[i].needs = needs[i];
			items[i].nneeds = random_part() < 0.3 ? 2 : 0;
			raw[i] = items[i];
		}
		decide_by(&ip_fperf_bucket, items, N, &m);
		assert_int_equal(ip_fperf_bucket.decide(raw, N, &m), 0);
		for (size_t i = 0; i < N; i++)
			if (items[i].stay != raw[i].stay || items[i].quota != raw[i].quota ||
			    items[i].every != raw[i].every)
				fail_msg("try %d, item %zu: %d %u %u, it says %d %u %u", t, i,
					 items[i].stay, items[i].quota, items[i].every, raw[i].stay,
					 raw[i].quota, raw[i].every);
	}
}

/* Functions whose calls go on in hot ones: they get their samples when those have a turn, or
 * have one themselves; who is there for others only has no turn of its own. */
static void test_who_needs_a_hot_one(void **state)
{
	enum { N = 100, HOT = 10, FRIENDLESS = 15 };
	static const uint32_t hot[HOT] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
	unsigned turns = 0;
	struct world w;

	(void)state;
	begin_world(&w, N, 0.02);
	for (size_t i = 0; i < N; i++) {
		w.rates[i] = i < HOT || i == FRIENDLESS ? 4e6 : 200;
		/* some of the hot ones are hidden, and one that nobody needs */
		if (i < HOT / 2 || i == FRIENDLESS)
			w.items[i].hidden = w.items[i].samples_none = true;
		/* hot and rare ones, each with a need of its own */
		else if (i < 3 * HOT && i != FRIENDLESS)
			w.items[i].needs = &hot[(i + 3) % HOT], w.items[i].nneeds = 1;
	}
	for (w.items[FRIENDLESS].samples = 1000; w.time < SECONDS;) {
		run(&w, w.time + INTERVAL);
		turns += w.items[FRIENDLESS].live;
		for (size_t i = 0; i < N; i++)
			if (w.items[i].nneeds && !w.items[w.items[i].needs[0]].live &&
			    w.items[i].quota)
				fail_msg("%zu may be sampled without %u", i, w.items[i].needs[0]);
	}
	check_budget(&w, 0);
	for (size_t i = 0; i < N; i++)
		if (!w.items[i].samples_none && w.items[i].samples < 10)
			fail_msg("%zu has %lu samples", i, w.items[i].samples);
	assert_int_equal(turns, 0);
	end_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_budget_and_promise),
		cmocka_unit_test(test_policies_are_obeyed),
		cmocka_unit_test(test_each_point),
		cmocka_unit_test(test_the_bucket_keeps_them),
		cmocka_unit_test(test_who_needs_a_hot_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
