/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums by owner and object, in a hash table; and objects, each of them once.
 */
#ifndef IP_WAIT_SUMS_H
#define IP_WAIT_SUMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/wait_profile.h"

struct ip_wait_sums {
	struct ip_wait_sum *slots; /* free: count and ticks are 0 */
	size_t n, size;
};

/* Adds to the sum of an owner and an object. Returns 0, or -1 with an error. */
int ip_wait_sums_add(struct ip_wait_sums *sums, uint32_t owner, uint32_t object, uint64_t ticks,
		     uint64_t count);
/* The same of a part of one wait. */
int ip_wait_sums_add_part(struct ip_wait_sums *sums, uint32_t owner, uint32_t object,
			  uint64_t ticks, bool begins, bool idle);
/* The same of another owner's sum. */
int ip_wait_sums_add_sum(struct ip_wait_sums *sums, uint32_t owner, const struct ip_wait_sum *sum);
/* Makes an array of all sums, by owner, then the longest first. sums is empty then. *ret: the
 * caller frees it. */
void ip_wait_sums_sort(struct ip_wait_sums *sums, struct ip_wait_sum **ret, size_t *ret_n);
void ip_wait_sums_clear(struct ip_wait_sums *sums);

struct ip_wait_objects {
	struct ip_wait_object *items;
	size_t n;
	uint32_t *index; /* open addressing, index + 1 */
	size_t size;
};

/* The number of an object, which is added where it is new. UINT32_MAX with an error. */
uint32_t ip_wait_objects_add(struct ip_wait_objects *objects, const struct ip_wait_object *object);
void ip_wait_objects_clear(struct ip_wait_objects *objects);

#endif
