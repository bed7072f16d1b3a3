/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions on recorded values, by which readers choose calls: NAME OP VALUE.
 *
 *   fd=3   fd!=3   len>4096   len>=4096   len<4096   len<=4096   uri=*.html   mode=RED
 *
 * Numbers are compared as numbers: 3, -3, 0x1f, 1.5e6. What is no number is compared as a text by =
 * and != alone: a glob for strings, enumerators, "true", "false", pointers as "0x...". A call
 * without the value meets no condition. Spaces around OP belong to it; the ">" of "->" does not.
 */
#ifndef IP_READ_VALUE_MATCH_H
#define IP_READ_VALUE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/read/value_name.h"

#define IP_VALUE_MATCHES_MAX 16u

enum ip_value_match_op {
	IP_MATCH_EQUAL,
	IP_MATCH_DIFFERENT,
	IP_MATCH_LESS,
	IP_MATCH_AT_MOST,
	IP_MATCH_MORE,
	IP_MATCH_AT_LEAST,
};

struct ip_value_match {
	char *whole;	   /* the condition as it was given */
	char *name, *text; /* NAME and VALUE of it */
	enum ip_value_match_op op;
	bool is_number;
	long double number;
	struct ip_value_name where; /* ip_value_matches_find() */
};

/* All conditions must hold. All zero: there is none. */
struct ip_value_matches {
	struct ip_value_match items[IP_VALUE_MATCHES_MAX];
	unsigned n;
};

/* Parses a condition and adds it. Returns 0, or -1 with an error. */
int ip_value_matches_add(struct ip_value_matches *matches, const char *text);
void ip_value_matches_clear(struct ip_value_matches *matches);

/* Finds the names in a recording. dir is for messages. Returns 0, or -1 with an error. */
int ip_value_matches_find(struct ip_value_matches *matches, const struct ip_recording *session,
			  const char *dir);
/* Forgets what was found; the conditions stay. */
void ip_value_matches_forget(struct ip_value_matches *matches);

/* Returns which conditions hold for what came with an event: one bit each. A condition on a value
 * that the event does not have does not hold. payload may be NULL. */
uint32_t ip_value_matches_test(const struct ip_value_matches *matches, const uint64_t *payload,
			       bool at_exit);

/* Returns what ip_value_matches_test() returns where all hold. */
static inline uint32_t ip_value_matches_all(const struct ip_value_matches *matches)
{
	return (1u << matches->n) - 1;
}

#endif
