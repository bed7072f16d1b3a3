/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels of rules, such as '> 90% for 5s', what is above them for how long, and how often a rule may fire. Arithmetic alone.
 */
#ifndef IP_RULES_LEVEL_H
#define IP_RULES_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ip_rules_unit {
	IP_RULES_PERCENT,
	IP_RULES_BYTES,
};

struct ip_rules_level {
	bool set; /* false: the rule has none */
	double limit;
	uint64_t for_ns; /* 0: once is enough */
};

/* "> 90%", "> 2G for 10s". most: the highest limit that makes sense. 0, or -1 with an error. */
int ip_rules_level_parse(const char *text, enum ip_rules_unit unit, double most, struct ip_rules_level *ret);

/* Since when something has been above its level. */
struct ip_rules_hold {
	bool above;
	uint64_t since_ns;
};

/* The value was the mean between from and now. Whether it has been above for as long as the level asks for. */
bool ip_rules_hold(const struct ip_rules_level *level, struct ip_rules_hold *hold, double value,
		   uint64_t from_ns, uint64_t now_ns);

#define IP_RULES_AT_MOST 1000u

/* When a rule has fired, the newest IP_RULES_AT_MOST of them. */
struct ip_rules_history {
	uint64_t *times; /* a ring, in any order */
	size_t n, next;
};

int ip_rules_history_add(struct ip_rules_history *history, uint64_t when_ns);
void ip_rules_history_clear(struct ip_rules_history *history);

/* "3 per 1h". 0, or -1 with an error. */
int ip_rules_rate_parse(const char *text, unsigned *ret_times, uint64_t *ret_per_ns);

/* Nanoseconds from now until the rule may fire again; 0: it may. times: 0: as often as it likes. */
uint64_t ip_rules_wait(const struct ip_rules_history *history, unsigned times, uint64_t per_ns,
		       uint64_t now_ns);

/* A session has taken so much of the process's time: how long it has to be left alone for that to be so many per cent. */
uint64_t ip_rules_pay_back(double cost_ns, double percent);

#endif
