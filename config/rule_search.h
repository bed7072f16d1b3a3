/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rule says of a search for root causes (do: darc). Both functions return 0, or -1 with an
 * error that gives FILE:LINE:COLUMN.
 */
#ifndef IP_RULE_SEARCH_H
#define IP_RULE_SEARCH_H

#include "config/rule.h"

/* Reads the map of darc, but for its memory. */
int ip_rules_search_read(const struct ip_yaml_document *document, const struct ip_yaml *map,
			 struct ip_rules_rule *ret);

/* Refuses settings of the whole rule (map) that a search cannot have. */
int ip_rules_search_check(const struct ip_yaml_document *document, const struct ip_yaml *map,
			  const struct ip_rules_rule *rule);

/* The calls that take so long are searched, in ns; 0: others are chosen. */
uint64_t ip_rules_search_slower(const struct ip_rules_rule *rule);

/* The bytes on disk that the recordings of a search may take while it goes on. */
uint64_t ip_rules_search_room(const struct ip_rules_rule *rule);

#endif
