/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules that hold with every policy. policy.h has the points that comments here name.
 */
#include "fperf/policy.h"

#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"

#define RARE 2e4 /* calls per second: in 50 us a program replaces what is in the caches */

double ip_fperf_call_cost(double calls_per_s, const struct ip_fperf_allowance *m)
{
	return m->count_ns + m->cold_ns / (1 + calls_per_s / RARE);
}

double ip_fperf_window(double cost, const struct ip_fperf_allowance *m)
{
	double seconds =
		(IP_FPERF_TURN_SHARE * m->credit_ns - 2 * m->change_ns) / (cost > 1 ? cost : 1);

	seconds = seconds < IP_FPERF_WINDOW_MAX_S ? seconds : IP_FPERF_WINDOW_MAX_S;
	return seconds > m->window_s ? seconds : m->window_s;
}

static double cost_of(const struct ip_fperf_item *i, const struct ip_fperf_allowance *m)
{
	return i->calls_per_s * ip_fperf_call_cost(i->calls_per_s, m);
}

struct cost {
	double ns; /* per second */
	size_t item;
};

static int downwards(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

/* 4. The most expensive functions go out. */
static int take_out(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	_cleanup_free_ struct cost *costs = calloc(n + 1, sizeof(*costs));
	double all = 0;

	if (!costs)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++) {
		costs[i] = (struct cost){items[i].stay ? cost_of(&items[i], m) : 0, i};
		all += costs[i].ns;
	}
	qsort(costs, n, sizeof(*costs), downwards);
	for (size_t k = 0; k < n && all > m->budget_ns && costs[k].ns > 0; k++) {
		items[costs[k].item].stay = false;
		all -= costs[k].ns;
	}
	return 0;
}

bool ip_fperf_is_blocked(const struct ip_fperf_item *items, const struct ip_fperf_item *item)
{
	for (size_t i = 0; i < item->nneeds; i++)
		if (!items[item->needs[i]].stay)
			return true;
	return false;
}

/* 2, 4, 5, 6. none: the function gets no quota. left: what is left of the limited samples. */
static void hold_quota(struct ip_fperf_item *i, const struct ip_fperf_allowance *m, bool none,
		       double *left)
{
	uint32_t promised = i->samples < IP_FPERF_PROMISED ? IP_FPERF_PROMISED : 0, more;

	if (!i->stay || i->samples_none || none) {
		i->quota = 0;
		return;
	}
	more = i->quota > promised && m->credit_ns > 0 ? i->quota - promised : 0;
	if (m->samples >= 0 && more > *left)
		more = *left;
	*left -= more;
	i->quota = promised + more;
	if (promised || !i->every)
		i->every = 1;
}

int ip_fperf_decide(const struct ip_fperf_policy *policy, struct ip_fperf_item *items, size_t n,
		    const struct ip_fperf_allowance *m)
{
	double left = m->samples >= 0 ? floor(m->samples) : 0;
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		items[i].stay = m->budget_ns < 0;
		items[i].quota = items[i].stay && !items[i].samples_none ? IP_FPERF_NO_LIMIT : 0;
		items[i].every = 1;
	}
	if (m->budget_ns < 0)
		return 0; /* 1 */
	if (policy->decide(items, n, m) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		items[i].stay &= items[i].live || (m->turns && m->credit_ns > 0); /* 3 */
	if (m->credit_ns < -m->limit_ns && take_out(items, n, m) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		all &= items[i].stay;
	for (size_t i = 0; i < n; i++)
		hold_quota(&items[i], m,
			   (m->exclusive && !all) || ip_fperf_is_blocked(items, &items[i]), &left);
	return 0;
}
