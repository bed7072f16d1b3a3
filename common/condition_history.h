/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last looks at one function under one condition, and which periods are judged by them.
 *
 *   1. The first look, after the function has gone live, judges nothing: what came before it is the
 *      disturbance that going live is. The first period begins there.
 *   2. A percentile or a mean is judged over whole periods only: from the youngest look that is as
 *      old as the condition's period, or older. So the period is never shorter than it was asked
 *      for. It is longer by as much as looks come late.
 *   3. A number of calls, or a longest call, can only grow. So it is judged before a whole period
 *      has passed, too: what is too much then is too much in the whole period. A number of calls is
 *      judged over the longest time that is no longer than the period; and over a whole one, where
 *      the number is scaled down by as much as that is longer.
 *
 * The caller looks as often as ip_condition_interval() says.
 */
#ifndef IP_CONDITION_HISTORY_H
#define IP_CONDITION_HISTORY_H

#include "common/condition.h"

struct ip_condition_look {
	uint64_t ns;
	struct ip_condition_durations total; /* of all calls until then */
	uint64_t max;			     /* of the calls from then to the next look */
};

struct ip_condition_history {
	struct ip_condition_look looks[IP_CONDITION_LOOKS];
	unsigned n, at; /* looks[at] is replaced next */
	/* of all that was judged, since the history was zeroed; value 0: there is none */
	struct ip_condition_figure highest;
	bool judged; /* a period was judged */
};

/* The function goes live again: the next look is the first one. */
void ip_condition_history_restart(struct ip_condition_history *h);

/* Adds a look at now_ns. total: of all calls until then, but max of those since the look before.
 * Returns whether the condition is met; then *ret is the figure. */
bool ip_condition_history_look(struct ip_condition_history *h, const struct ip_condition *condition,
			       const struct ip_condition_durations *total, uint64_t now_ns,
			       double ns_per_tick, struct ip_condition_figure *ret);

#endif
