/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a rule may fire. See rate_limit.h.
 */
#include "iprobed/rules/rate_limit.h"

#include <stdlib.h>

#include "common/array.h"

bool ip_rules_above(const struct ip_rules_level *level, struct ip_rules_above *hold, double value,
		    uint64_t from_ns, uint64_t now_ns)
{
	if (!(value > level->limit)) {
		hold->above = false;
		return false;
	}
	if (!hold->above)
		*hold = (struct ip_rules_above){.above = true, .since_ns = from_ns};
	return now_ns - hold->since_ns >= level->for_ns;
}

int ip_rules_history_add(struct ip_rules_history *h, uint64_t when_ns)
{
	if (h->n < IP_RULES_AT_MOST) {
		if (ip_array_grow(&h->times, h->n, sizeof(*h->times)) < 0)
			return -1;
		h->times[h->n++] = when_ns;
		return 0;
	}
	h->times[h->next] = when_ns;
	h->next = (h->next + 1) % h->n;
	return 0;
}

void ip_rules_history_clear(struct ip_rules_history *h)
{
	free(h->times);
	*h = (struct ip_rules_history){0};
}

uint64_t ip_rules_wait(const struct ip_rules_history *h, unsigned times, uint64_t per_ns,
		       uint64_t now_ns)
{
	uint64_t oldest = UINT64_MAX;
	unsigned in = 0;

	for (size_t i = 0; times && i < h->n; i++)
		if (now_ns - h->times[i] < per_ns) {
			in++;
			oldest = h->times[i] < oldest ? h->times[i] : oldest;
		}
	return times && in >= times ? oldest + per_ns - now_ns : 0;
}

uint64_t ip_rules_pay_back(double cost_ns, double percent)
{
	double ns = percent > 0 ? cost_ns * 100 / percent : 0;

	return ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18;
}
