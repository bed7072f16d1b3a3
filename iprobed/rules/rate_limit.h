/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a rule may fire: what has been above its level for how long, how often it has fired, and
 * what its sessions have cost. Arithmetic alone.
 */
#ifndef IP_RULES_RATE_LIMIT_H
#define IP_RULES_RATE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/rule_level.h"

/* Since when something has been above its level. */
struct ip_rules_hold {
	bool above;
	uint64_t since_ns;
};

/* The value was the mean between from and now. Whether it has been above for as long as the level
 * asks for. */
bool ip_rules_hold(const struct ip_rules_level *level, struct ip_rules_hold *hold, double value,
		   uint64_t from_ns, uint64_t now_ns);

/* When a rule has fired, the newest IP_RULES_AT_MOST of them. */
struct ip_rules_history {
	uint64_t *times; /* a ring, in any order */
	size_t n, next;
};

int ip_rules_history_add(struct ip_rules_history *history, uint64_t when_ns);
void ip_rules_history_clear(struct ip_rules_history *history);

/* Nanoseconds from now until the rule may fire again; 0: it may. times: 0: as often as it likes. */
uint64_t ip_rules_wait(const struct ip_rules_history *history, unsigned times, uint64_t per_ns,
		       uint64_t now_ns);

/* A session has taken so much of the process's time: how long it has to be left alone for that to
 * be so many per cent. */
uint64_t ip_rules_pay_back(double cost_ns, double percent);

#endif
