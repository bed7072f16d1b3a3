/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which periods of a condition are judged. See condition_history.h.
 */
#include "common/condition_history.h"

void ip_condition_history_restart(struct ip_condition_history *h)
{
	h->n = h->at = 0;
}

/* The look before the last `ago` ones. */
static struct ip_condition_look *look_at(struct ip_condition_history *h, unsigned ago)
{
	return &h->looks[(h->at + 2 * IP_CONDITION_LOOKS - 1 - ago) % IP_CONDITION_LOOKS];
}

/* Judges what has come since that look. */
static bool judge(struct ip_condition_history *h, const struct ip_condition *c, unsigned ago,
		  const struct ip_condition_durations *total, uint64_t now_ns, double ns_per_tick,
		  struct ip_condition_figure *ret)
{
	const struct ip_condition_look *from = look_at(h, ago);
	struct ip_condition_durations in = *total;
	bool holds;

	in.calls -= from->total.calls;
	in.sum -= from->total.sum;
	for (unsigned i = 0; i < IP_HIST_BUCKETS; i++)
		in.buckets[i] -= from->total.buckets[i];
	in.max = 0;
	for (unsigned i = 0; i <= ago; i++)
		if (look_at(h, i)->max > in.max)
			in.max = look_at(h, i)->max;
	holds = ip_condition_holds(c, &in, now_ns - from->ns, ns_per_tick, ret);
	h->judged = true;
	if (ret->value > h->highest.value)
		h->highest = *ret;
	return holds;
}

bool ip_condition_history_look(struct ip_condition_history *h, const struct ip_condition *c,
			       const struct ip_condition_durations *total, uint64_t now_ns,
			       double ns_per_tick, struct ip_condition_figure *ret)
{
	bool grows = c->measure == IP_CONDITION_RATE || c->measure == IP_CONDITION_MAX, met = false;
	unsigned part = h->n, whole = h->n; /* looks ago; h->n: no look is of that age */

	if (h->n)
		look_at(h, 0)->max = total->max;
	for (unsigned i = h->n; i-- > 0;) {
		uint64_t age = now_ns - look_at(h, i)->ns;

		if (age >= c->over_ns)
			whole = i; /* the youngest one stays */
		if (age <= c->over_ns && part == h->n)
			part = i; /* the oldest one */
	}
	if (grows && part < h->n)
		met = judge(h, c, part, total, now_ns, ns_per_tick, ret);
	if (!met && whole < h->n)
		met = judge(h, c, whole, total, now_ns, ns_per_tick, ret);
	h->looks[h->at] = (struct ip_condition_look){.ns = now_ns, .total = *total};
	h->at = (h->at + 1) % IP_CONDITION_LOOKS;
	if (h->n < IP_CONDITION_LOOKS)
		h->n++;
	return met;
}
