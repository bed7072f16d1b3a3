/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How rules write levels and rates: '> 90% for 5s', '3 per 1h'.
 */
#ifndef IP_RULE_LEVEL_H
#define IP_RULE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

enum ip_rules_unit {
	IP_RULES_PERCENT,
	IP_RULES_BYTES,
};

struct ip_rules_level {
	bool set; /* false: the rule has no such level */
	double limit;
	uint64_t for_ns; /* how long the level must last; 0: no time */
};

/* Reads "> 90%" or "> 2G for 10s". most: the highest limit that makes sense. Returns 0, or -1 with
 * an error. */
int ip_rules_level_parse(const char *text, enum ip_rules_unit unit, double most,
			 struct ip_rules_level *ret);

#define IP_RULES_AT_MOST 1000u /* the highest number of times in a rate */

/* Reads "3 per 1h". Returns 0, or -1 with an error. */
int ip_rules_rate_parse(const char *text, unsigned *ret_times, uint64_t *ret_per_ns);

#endif
