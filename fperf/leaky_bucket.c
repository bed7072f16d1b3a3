/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leaky bucket. leaky_bucket.h has the steps that comments here name.
 */
#include "fperf/leaky_bucket.h"

#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/error.h"

#define STEADY	 0.25 /* part of the budget for functions that are live for good */
#define RETURN	 0.15 /* the same for functions that are out and would come back */
#define RETURN_S 1.0  /* least time before they come back */
/* functions whose cost in so long is less than a change stay live */
#define WORTH_S 0.5
/* part of the budget for samples of these functions; the rest is for turns */
#define SAMPLING     0.4
#define SAMPLING_HOT 0.2 /* the same if there are hot functions */
/* part of the budget for calls that are passed over between samples */
#define SPREADING 0.1
/* Part of the savings for more samples of the busiest functions, besides IP_FPERF_TURN_SHARE. */
#define TURN_EXTRA   0.4
#define TURN_SAMPLES 8u
/* samples of the busiest functions in a turn, if the savings pay for them */
#define TURN_MOST    256u
#define BUSY_MOST    20.0 /* times the average function */
#define IDLE_LEAST   0.2
#define ALL	     0.95
#define EVERY_MAX    32u /* largest every if spreading has to be cheap */
#define EVERY_SPREAD 1000000u
#define WIDTH_MIN    0.02
/* the rule of three: few samples that are all alike say little */
#define THREE 3.0
/* expected calls in an interval, of a function that was not called in the last one */
#define UNEXPECTED 0.02
/* at least this part of all samples is kept for such functions */
#define UNCALLED  0.05
#define QUOTA_MAX 4096u
#define NO_END	  1e9 /* no limit on samples */

struct rank {
	double key;
	size_t item;
};

static int upwards(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static double cost_of(const struct ip_fperf_item *i, const struct ip_fperf_allowance *m)
{
	return i->calls_per_s * ip_fperf_call_cost(i->calls_per_s, m);
}

/* Step 1. Decides which functions stay for good, and moves them to the front of the ranks, which
 * are sorted by rate. Returns their number. */
static size_t keep_live(struct ip_fperf_item *items, struct rank *ranks, size_t n,
			const struct ip_fperf_allowance *m)
{
	bool may_return = m->turns && IP_FPERF_TURN_SHARE * m->credit_ns > 2 * m->change_ns;
	double rate = 0, going = 0;
	size_t staying = 0;

	for (size_t k = 0; k < n; k++) {
		struct ip_fperf_item *i = &items[ranks[k].item];
		double cost = cost_of(i, m);

		if (!i->live && (!may_return || i->out_s < RETURN_S))
			continue;
		if (rate + cost > (i->live ? STEADY : RETURN) * m->budget_ns) {
			going += i->live ? cost : 0;
			continue;
		}
		rate += cost;
		i->stay = true;
	}
	/* taking them out is not worth a change */
	for (size_t k = 0; k < n && going * WORTH_S < m->change_ns; k++)
		items[ranks[k].item].stay |= items[ranks[k].item].live;
	for (size_t k = 0; k < n; k++)
		if (items[ranks[k].item].stay) {
			struct rank r = ranks[k];

			ranks[k] = ranks[staying];
			ranks[staying++] = r;
		}
	return staying;
}

/* Returns how much the function needs more samples. This is the width of its interval. But a few
 * samples never count as if they said everything. */
static double width_of(const struct ip_fperf_item *i)
{
	double least = THREE / i->samples;

	least = least > WIDTH_MIN ? least : WIDTH_MIN;
	return i->width > least ? i->width : least;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* Returns how much the function matters: users look for the functions that take most of the time.
 * n: number of functions that were called. */
static double weight_of_share(const struct ip_fperf_item *i, size_t n)
{
	double times = i->share * n;

	return IDLE_LEAST + (times < BUSY_MOST ? times : BUSY_MOST);
}

static size_t count_called(const struct ip_fperf_item *items, size_t n)
{
	size_t called = 0;

	for (size_t i = 0; i < n; i++)
		called += items[i].calls_per_s > 0;
	return called;
}

static double need_of(const struct ip_fperf_item *i, size_t n)
{
	if (i->samples < 2)
		return 1e6 * (i->out_s + 1);
	return width_of(i) * (i->out_s + 1e-3) * weight_of_share(i, n);
}

/* Returns the lesser value. b may be anything if the target has written into the memory: then 0. */
static uint32_t least(double a, double b)
{
	return b >= 0 ? (a < b ? a : b) : 0;
}

/* left: samples that may still be given. The first two of a function are not subtracted. */
static void give_turn(struct ip_fperf_item *i, double window_s, double *left)
{
	double calls = i->calls_per_s * window_s;
	uint32_t quota = least(TURN_SAMPLES, calls / 2 + 2),
		 promised = i->samples < IP_FPERF_PROMISED ? IP_FPERF_PROMISED : 0;

	if (quota > promised + *left)
		quota = promised + least(QUOTA_MAX, *left);
	*left -= quota > promised ? quota - promised : 0;
	i->stay = true;
	i->quota = i->samples_none ? 0 : quota;
	i->every = i->quota && i->samples >= 2 ? least(EVERY_MAX, calls / i->quota / 2 + 1) : 1;
}

/* The turn of all functions, if samples are exclusive. */
static void take_turn_together(struct ip_fperf_item *items, size_t n,
			       const struct ip_fperf_allowance *m, double left)
{
	double cost = m->run_ns * m->window_s + 2 * m->change_ns;

	if (cost > IP_FPERF_TURN_SHARE * m->credit_ns && m->credit_ns <= ALL * m->limit_ns)
		return;
	for (size_t k = 0; k < n; k++) {
		/* The first functions in the list must not get all samples. */
		double share = ceil(left / (n - k));

		left -= share;
		give_turn(&items[k], m->window_s, &share);
		left += share;
	}
}

/* Returns what the function and those that it needs cost per second, without those that are in
 * already. */
static double rate_of_turn(const struct ip_fperf_item *items, const struct ip_fperf_item *i,
			   const struct ip_fperf_allowance *m)
{
	double rate = i->stay ? 0 : cost_of(i, m);

	for (size_t k = 0; k < i->nneeds; k++)
		if (!items[i->needs[k]].stay)
			rate += cost_of(&items[i->needs[k]], m);
	return rate;
}

/* Buys more samples for the functions that matter most. turns: functions that have a turn. left:
 * ns. samples: number that may be given. */
static void give_more(struct ip_fperf_item *items, const struct rank *turns, size_t nturns,
		      size_t called, const struct ip_fperf_allowance *m, double window_s,
		      double left, double samples)
{
	/* calls between two samples cost, too */
	double more = left / (m->sample_ns + 2 * EVERY_MAX * m->hook_ns), sum = 0;

	more = more < samples ? more : samples;
	for (size_t k = 0; k < nturns; k++)
		sum += weight_of_share(&items[turns[k].item], called) *
		       width_of(&items[turns[k].item]);
	for (size_t k = 0; k < nturns && more > 0 && sum > 0; k++) {
		struct ip_fperf_item *i = &items[turns[k].item];
		double calls = i->calls_per_s * window_s;
		double quota = i->quota + more * weight_of_share(i, called) * width_of(i) / sum;

		if (i->samples < IP_FPERF_PROMISED || !i->quota)
			continue;
		quota = quota < calls / 2 + 2 ? quota : calls / 2 + 2;
		i->quota = least(TURN_MOST, quota > i->quota ? quota : i->quota);
		i->every = least(EVERY_MAX, calls / i->quota / 2 + 1);
	}
}

/* Step 2, for the hot functions, and those that need one of them. ranks: of all functions. The
 * first staying ones stay for good. */
static int take_turns(struct ip_fperf_item *items, const struct rank *ranks, size_t staying,
		      size_t n, const struct ip_fperf_allowance *m, double samples)
{
	_cleanup_free_ struct rank *turns = calloc(n + 1, sizeof(*turns));
	double left = IP_FPERF_TURN_SHARE * m->credit_ns - 2 * m->change_ns, rates = 0, window_s;
	const double extra = TURN_EXTRA * m->credit_ns,
		     good_s = m->good_s > m->window_s ? m->good_s : m->window_s;
	bool all_saved = m->credit_ns > ALL * m->limit_ns;
	size_t called = count_called(items, n), candidates = 0, nturns = 0;
	double paid, before;

	if (!turns)
		return ip_error("out of memory");
	for (size_t k = 0; k < n; k++) {
		const struct ip_fperf_item *i = &items[ranks[k].item];

		if (!i->hidden &&
		    (k >= staying || (i->calls_per_s > 0 && ip_fperf_is_blocked(items, i))))
			turns[candidates++] =
				(struct rank){.key = -need_of(i, called), .item = ranks[k].item};
	}
	qsort(turns, candidates, sizeof(*turns), upwards);
	for (size_t k = 0; k < candidates; k++) {
		struct ip_fperf_item *i = &items[turns[k].item];
		double rate = rate_of_turn(items, i, m), seconds = nturns ? good_s : m->window_s,
		       promised = i->samples < IP_FPERF_PROMISED ? IP_FPERF_PROMISED * m->sample_ns
								 : 0,
		       cost = rate * seconds + promised;

		if (cost > left && !nturns && !all_saved)
			break;
		if (cost > left && (nturns || !all_saved))
			continue;
		/* The first function gets what there is, for a long turn or a short one. */
		cost = rate * good_s + promised;
		left -= nturns || cost < left / 2 ? cost : left / 2;
		rates += rate;
		for (size_t d = 0; d < i->nneeds; d++)
			items[i->needs[d]].stay = true;
		i->stay = true;
		turns[nturns++] = turns[k];
	}
	window_s = ip_fperf_window(rates, m);
	/* The calls of all these functions are counted. Samples are for those that need them most,
	 * as far as they can be paid. */
	paid = before = smaller(samples, (extra + (left > 0 ? left : 0)) / m->sample_ns);
	for (size_t k = 0; k < nturns; k++)
		give_turn(&items[turns[k].item], window_s, &paid);
	give_more(items, turns, nturns, called, m, window_s, paid * m->sample_ns,
		  samples - (before - paid));
	/* A function that came in for another one may also be what a third function needs. */
	for (size_t k = 0; k < n; k++) {
		struct ip_fperf_item *i = &items[k];

		if (i->stay && !i->samples_none && i->samples < IP_FPERF_PROMISED &&
		    i->quota < IP_FPERF_PROMISED && !ip_fperf_is_blocked(items, i))
			i->quota = IP_FPERF_PROMISED;
	}
	return 0;
}

/* Returns how much the function needs samples if it is called. */
static double wish_of(const struct ip_fperf_item *i)
{
	if (i->samples_none)
		return 0;
	if (i->samples < 2 || i->width < 0 || width_of(i) > 1)
		return 1;
	return width_of(i);
}

static double weight_of(const struct ip_fperf_item *i, size_t n)
{
	return i->calls_per_s > 0 ? wish_of(i) * weight_of_share(i, n) : 0;
}

/* Returns the calls that are expected in the interval. A function that was not called just now may
 * be called, and is then seen only if it has a quota. */
static double expected_calls(const struct ip_fperf_item *i, const struct ip_fperf_allowance *m)
{
	double calls = i->calls_per_s * m->interval_s;

	return calls > UNEXPECTED ? calls : UNEXPECTED;
}

/* For many functions the rest is less than a sample each. It goes to the widest of those that will
 * be called, and then to others, one sample each. left: number of samples. */
static void give_rest(struct ip_fperf_item *items, const struct rank *ranks, size_t n,
		      const struct ip_fperf_allowance *m, double left)
{
	_cleanup_free_ struct rank *wide = calloc(n + 1, sizeof(*wide));

	if (!wide)
		return;
	for (size_t k = 0; k < n; k++) {
		const struct ip_fperf_item *i = &items[ranks[k].item];

		wide[k] = (struct rank){.key = -wish_of(i) * smaller(1, expected_calls(i, m)),
					.item = ranks[k].item};
		/* its two samples are promised */
		if (i->samples < 2 && i->calls_per_s <= 0)
			wide[k].key = 0;
	}
	qsort(wide, n, sizeof(*wide), upwards);
	for (size_t k = 0; k < n && wide[k].key < 0; k++) {
		struct ip_fperf_item *i = &items[wide[k].item];
		double cost = m->samples >= 0 ? 1 : smaller(1, expected_calls(i, m));

		if (i->quota || cost > left || ip_fperf_is_blocked(items, i))
			continue;
		i->quota = 1;
		left -= cost;
	}
}

/* If samples are limited, returns how many are kept for functions that have turns: only if the
 * function with the widest interval of all is among these. */
static double kept_for_turns(const struct ip_fperf_item *items, const struct rank *ranks,
			     size_t staying, size_t n, const struct ip_fperf_allowance *m)
{
	double widest = 0, hot = 0, share;

	if (m->samples < 0 || !m->turns || staying == n)
		return 0;
	for (size_t k = 0; k < n; k++) {
		const struct ip_fperf_item *i = &items[ranks[k].item];
		/* their samples are free */
		double width = i->samples < 2 || i->calls_per_s <= 0 ? 0 : wish_of(i);

		if (k < staying)
			widest = width > widest ? width : widest;
		else
			hot = width > hot ? width : hot;
	}
	share = ceil(m->samples * (n - staying) / n);
	return hot >= widest ? smaller(share, m->samples) : 0;
}

/* Steps 3 and 4, for the functions that stay for good. kept: the part of the allowed samples for
 * other functions. Returns how many of the allowed samples it gave. */
static double give_quotas(struct ip_fperf_item *items, const struct rank *ranks, size_t n,
			  const struct ip_fperf_allowance *m, double kept, size_t all)
{
	double part = n < all ? SAMPLING_HOT : SAMPLING, sum = 0,
	       spare = m->credit_ns > 0 ? part * m->budget_ns * m->interval_s / m->sample_ns : 0;
	size_t called = count_called(items, all);
	double spreading = m->credit_ns > 0 ? SPREADING * m->budget_ns * m->interval_s : 0,
	       given = 0;

	if (m->samples >= 0 && spare > m->samples - kept)
		spare = m->samples - kept;
	for (size_t k = 0; k < n; k++)
		if (!ip_fperf_is_blocked(items, &items[ranks[k].item]))
			sum += weight_of(&items[ranks[k].item], called);
	for (size_t k = 0; k < n; k++) {
		struct ip_fperf_item *i = &items[ranks[k].item];
		double calls = i->calls_per_s * m->interval_s,
		       quota = sum > 0 ? spare * weight_of(i, called) / sum : 0;

		if (i->samples_none || ip_fperf_is_blocked(items, i))
			continue;
		if (quota > 2 * calls + 1)
			quota = 2 * calls + 1;
		i->quota = least(QUOTA_MAX, quota);
		given += i->quota;
	}
	given = spare - given;
	if (m->samples < 0 && given < UNCALLED * spare)
		given = UNCALLED * spare;
	give_rest(items, ranks, n, m, given);
	given = 0;
	for (size_t k = 0; k < n; k++) {
		struct ip_fperf_item *i = &items[ranks[k].item];
		double calls = i->calls_per_s * m->interval_s;

		if (i->samples_none || ip_fperf_is_blocked(items, i))
			continue;
		given += i->quota;
		if (i->samples < 2 && i->quota < 2)
			i->quota = 2;
		i->every = 1;
		/* With every > 1 a function without samples may get none for long, in threads that
		 * call it less often than once in every. */
		if (!i->quota || calls <= i->quota || i->samples < 2)
			continue;
		/* 4. */
		if (2 * calls * m->hook_ns <= spreading) {
			spreading -= 2 * calls * m->hook_ns;
			i->every = least(EVERY_SPREAD, calls / i->quota + 1);
		} else {
			i->every = least(EVERY_MAX, calls / i->quota / 2 + 1);
		}
	}
	return given;
}

static int decide(struct ip_fperf_item *items, size_t n, const struct ip_fperf_allowance *m)
{
	_cleanup_free_ struct rank *ranks = calloc(n + 1, sizeof(*ranks));
	size_t staying;
	double kept, left;

	if (!ranks)
		return ip_error("out of memory");
	for (size_t i = 0; i < n; i++)
		ranks[i] = (struct rank){.key = items[i].calls_per_s, .item = i};
	qsort(ranks, n, sizeof(*ranks), upwards);
	staying = keep_live(items, ranks, n, m);
	if (m->exclusive && staying < n) {
		if (m->turns && m->credit_ns > 0)
			take_turn_together(items, n, m,
					   m->samples < 0 ? NO_END : floor(m->samples));
		return 0;
	}
	kept = kept_for_turns(items, ranks, staying, n, m);
	left = m->samples - give_quotas(items, ranks, staying, m, kept, n);
	if (m->turns && m->credit_ns > 0)
		return take_turns(items, ranks, staying, n, m,
				  m->samples < 0 ? NO_END : floor(left));
	return 0;
}

const struct ip_fperf_policy ip_fperf_bucket = {.name = "leaky bucket", .decide = decide};
