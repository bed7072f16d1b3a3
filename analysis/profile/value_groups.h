/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers the groups of calls of one function with one value (analysis/read/value_key.h).
 *
 * A trace may have as many values as calls, so their number is limited: the values that come first,
 * or those that were chosen (value_choice.h), have groups of their own, and each function has one
 * group for the others.
 */
#ifndef IP_VALUE_GROUPS_H
#define IP_VALUE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/value_key.h"
#include "analysis/read/value_name.h"

/* The most values of one function, and of all functions together. */
#define IP_VALUES_OF_FUNCTION 10000u
#define IP_VALUES_OF_ALL      50000u

struct ip_value_group {
	uint32_t function;
	struct ip_value_key key;
	/* Private: */
	uint64_t hash;
	uint64_t *words; /* that the key points to */
};

struct ip_value_choice;

struct ip_value_groups {
	struct ip_value_name name;
	/* the values that have groups; NULL: those that come first. To be set at once. Borrowed. */
	const struct ip_value_choice *chosen;
	bool ranges; /* numbers are put together by powers of two */
	/* Pointers stay valid while the groups grow. */
	struct ip_value_group **items;
	size_t n;
	uint64_t others; /* events whose value had no group of its own */
	/* Private: */
	uint32_t *index; /* group + 1; 0: free */
	size_t size, nvalues;
	/* by function: how many values it has, and its groups (+ 1) without a value and for others
	 */
	struct ip_value_function {
		uint32_t values, missing, others;
	} * functions;
};

/* text is NAME or NAME/log2. dir is for messages. Returns NULL with an error: no function records a
 * value of that name, or memory ran out. */
struct ip_value_groups *ip_value_groups_create(const struct ip_recording *session, const char *dir,
					       const char *text);
void ip_value_groups_destroy(struct ip_value_groups *groups);

/* Returns what tells the value of a function from others. */
uint64_t ip_value_group_hash(uint32_t function, const struct ip_value_key *key);

/* Returns the group of a function's event: of what came with an entry or a point (payload NULL:
 * nothing). UINT32_MAX with an error: memory ran out. */
uint32_t ip_value_groups_at_entry(struct ip_value_groups *groups, uint32_t function,
				  const uint64_t *payload);
/* Returns 1 and the group of a call by what came with its exit, 0 where the value is not among it,
 * -1 with an error. */
int ip_value_groups_at_exit(struct ip_value_groups *groups, uint32_t function,
			    const uint64_t *payload, uint32_t *ret);

/* Returns whether the function has a value in any of its calls so far. */
bool ip_value_groups_has_values(const struct ip_value_groups *groups, uint32_t function);

/* Makes "uri=\"/index.html\"", "uri (none)". The caller frees it. Returns NULL with an error where
 * memory ran out. */
char *ip_value_group_text(const struct ip_value_groups *groups, const struct ip_value_group *group);

#endif
