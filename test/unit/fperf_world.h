/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is made up, for FPerf's policies: so often is each function called, so much does
 * that cost.
 */
#ifndef FPERF_WORLD_H
#define FPERF_WORLD_H

#include <math.h>
#include <stdlib.h>

#include "fperf/leaky_bucket.h"
#include "test/unit/test.h"

#define COUNT_NS  7.0
#define SAMPLE_NS 1500.0
#define HOOK_NS	  20.0
#define CHANGE_NS 300000.0
#define INTERVAL  0.1
#define WINDOW	  0.004
#define SAVE_S	  1.0
#define ADVANCE_S 0.05

/* A made-up program: how often each function is really called. */
struct world {
	const struct ip_fperf_policy *policy;
	size_t n;
	double *rates, *parts; /* parts: of a call that is still to come */
	struct ip_fperf_item *items;
	double budget, credit, spent, time, worst; /* spent beyond what was earned */
	double most;				   /* that one stretch has cost */
	unsigned changes;
};

static inline void begin_world(struct world *w, size_t n, double budget)
{
	*w = (struct world){.n = n,
			    .budget = budget,
			    .credit = ADVANCE_S * budget * 1e9,
			    .policy = &ip_fperf_bucket};
	w->rates = calloc(n, sizeof(*w->rates));
	w->parts = calloc(n, sizeof(*w->parts));
	w->items = calloc(n, sizeof(*w->items));
	for (size_t i = 0; i < n; i++)
		w->items[i] =
			(struct ip_fperf_item){.live = true, .width = -1, .quota = 2, .every = 1};
}

static inline void end_world(struct world *w)
{
	free(w->rates);
	free(w->parts);
	free(w->items);
}

static inline double random_part(void)
{
	static unsigned seed = 3;

	return rand_r(&seed) / (double)RAND_MAX;
}

/* Time passes; live functions cost what they cost. */
static inline void pass(struct world *w, double seconds)
{
	double cost = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct ip_fperf_item *item = &w->items[i];
		double calls = floor(w->parts[i] += w->rates[i] * seconds),
		       samples = floor(calls / item->every);

		w->parts[i] -= calls;
		if (!item->live) {
			item->out_s += seconds;
			continue;
		}
		if (samples > item->quota)
			samples = item->quota;
		item->quota -= samples;
		item->samples += samples;
		/* as of values that vary as much as they are large */
		item->width = item->samples > 1 ? 2 / sqrt(item->samples) : -1;
		item->calls_per_s = w->rates[i] * (0.5 + random_part()); /* it is not steady */
		cost += calls * COUNT_NS + samples * SAMPLE_NS;
	}
	w->most = cost > w->most ? cost : w->most;
	w->time += seconds;
	w->spent += cost;
	w->credit += w->budget * 1e9 * seconds - cost;
	if (w->credit > SAVE_S * w->budget * 1e9)
		w->credit = SAVE_S * w->budget * 1e9;
	if (w->spent - w->budget * 1e9 * w->time > w->worst)
		w->worst = w->spent - w->budget * 1e9 * w->time;
}

static inline bool decide(struct world *w, bool turns)
{
	const struct ip_fperf_allowance m = {.budget_ns = w->budget * 1e9,
					     .credit_ns = w->credit,
					     .limit_ns = SAVE_S * w->budget * 1e9,
					     .samples = -1,
					     .interval_s = INTERVAL,
					     .window_s = WINDOW,
					     .count_ns = COUNT_NS,
					     .sample_ns = SAMPLE_NS,
					     .change_ns = CHANGE_NS,
					     .hook_ns = HOOK_NS,
					     .turns = turns};
	bool changed = false, come = false;

	assert_int_equal(ip_fperf_decide(w->policy, w->items, w->n, &m), 0);
	for (size_t i = 0; i < w->n; i++) {
		struct ip_fperf_item *item = &w->items[i];

		changed |= item->live != item->stay;
		come |= item->stay && !item->live;
		if (item->live != item->stay)
			item->out_s = 0;
		item->live = item->stay;
	}
	w->changes += changed;
	w->spent += changed * CHANGE_NS;
	w->credit -= changed * CHANGE_NS;
	return come;
}

static inline void run(struct world *w, double seconds)
{
	pass(w, 0.002);
	decide(w, false);
	while (w->time < seconds) {
		pass(w, INTERVAL);
		if (decide(w, true)) {
			pass(w, WINDOW);
			decide(w, false);
		}
	}
}

#endif
