/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a rule may fire: how long a value has been above its level, how often the rule has fired,
 * and what its sessions have cost. This file only computes.
 */
#ifndef IP_RULES_RATE_LIMIT_H
#define IP_RULES_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/rule_level.h"

/* Since when a value has been above its level. */
struct ip_rules_above {
	bool above;
	uint64_t since_ns;
};

/* value: the mean between from_ns and now_ns. Returns whether the value has been above the level
 * for as long as the level asks for. */
bool ip_rules_above(const struct ip_rules_level *level, struct ip_rules_above *hold, double value,
		    uint64_t from_ns, uint64_t now_ns);

/* When a rule has fired: the newest IP_RULES_AT_MOST times. */
struct ip_rules_history {
	uint64_t *times; /* a ring; not sorted */
	size_t n, next;
};

int ip_rules_history_add(struct ip_rules_history *history, uint64_t when_ns);
void ip_rules_history_clear(struct ip_rules_history *history);

/* Returns the nanoseconds from now until the rule may fire again; 0: it may fire now. times 0:
 * there is no limit. */
uint64_t ip_rules_wait(const struct ip_rules_history *history, unsigned times, uint64_t per_ns,
		       uint64_t now_ns);

/* A session has cost cost_ns of the process's time. Returns for how long the process must have no
 * session, so that this is percent of the time. */
uint64_t ip_rules_pay_back(double cost_ns, double percent);

#endif
