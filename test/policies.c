/* SPDX-License-Identifier: Apache-2.0 */
#include "test/policies.h"

#include <stdlib.h>

struct place {
	double out_s;
	size_t item;
};

static int longest_first(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->out_s > y->out_s ? -1 : x->out_s < y->out_s;
}

static double cost_of(const struct ip_fperf_item *i, const struct ip_fperf_allowance *m)
{
	return i->calls_per_s * ip_fperf_call_cost(i->calls_per_s, m);
}

/* Fair: each function has the same share of the budget. Who takes no more while live stays; the
 * others take turns, who has been out longest first, as many as what is saved up pays for. All
 * get as many samples. */
static int decide_round(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	double share = m->budget_ns / 4 / n, left = m->credit_ns / 2 - 2 * m->change_ns;
	struct place *out = calloc(n + 1, sizeof(*out));
	size_t nout = 0;

	if (!out)
		return -1;
	for (size_t i = 0; i < n; i++) {
		items[i].stay = cost_of(&items[i], m) <= share;
		items[i].quota = share * m->interval_s / m->sample_ns;
		if (!items[i].stay)
			out[nout++] = (struct place){items[i].out_s, i};
	}
	qsort(out, nout, sizeof(*out), longest_first);
	for (size_t k = 0; k < nout && m->turns; k++) {
		struct ip_fperf_item *i = &items[out[k].item];

		left -= cost_of(i, m) * m->window_s + 8 * m->sample_ns;
		if (left < 0)
			break;
		i->stay = true;
		i->quota = 8;
	}
	free(out);
	return 0;
}

/* So many samples a second of each, whatever it costs to be live; a tenth of those that are not
 * cheap at a time, in turn. */
static int decide_rate(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	double live = 0;

	for (size_t i = 0; i < n; i++) {
		double cost = cost_of(&items[i], m);

		items[i].quota = 1 + 20 * m->interval_s;
		items[i].every = 7;
		if (items[i].live ? live + cost > m->budget_ns / 4
				  : !m->turns || items[i].out_s < n * m->interval_s / 20)
			continue;
		items[i].stay = true;
		live += items[i].live ? cost : 0;
	}
	return 0;
}

/* All at once, all the time, and more than there is. */
static int decide_all(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	(void)m;
	for (size_t i = 0; i < n; i++) {
		items[i].stay = true;
		items[i].quota = 200;
	}
	return 0;
}

/* Nobody, ever. */
static int decide_none(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	(void)items;
	(void)n;
	(void)m;
	return 0;
}

const struct ip_fperf_policy test_rounds = {.name = "rounds", .decide = decide_round},
			     test_rate = {.name = "rate", .decide = decide_rate},
			     test_spendthrift = {.name = "spendthrift", .decide = decide_all},
			     test_miser = {.name = "miser", .decide = decide_none};
