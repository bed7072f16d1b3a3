/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wait profile (wait_profile.h) as a tree of call paths: what each path took with the calls
 * inside it, and what it waited for by itself.
 */
#ifndef IP_WAIT_TREE_H
#define IP_WAIT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/wait_profile.h"

struct ip_wait_tree {
	/* The paths. A node stands behind its parent; node 0 has no function, its children are
	 * where paths begin. */
	struct ip_calltree *paths;
	uint64_t *calls;	     /* by node */
	struct ip_wait_parts *total; /* by node: with the calls inside; of node 0: of all */
	struct ip_wait_sum *waits;   /* by node, then the longest first: without calls inside */
	size_t nwaits;
};

/* roots: by function: paths begin at these; NULL: at the outermost calls. Returns NULL with an
 * error where memory ran out. */
struct ip_wait_tree *ip_wait_tree_make(const struct ip_wait_profile *profile, const bool *roots);
void ip_wait_tree_destroy(struct ip_wait_tree *tree);

/* The time of a node in which it could not go on: blocked, or waiting for a CPU. Idle waits are
 * none of it. */
uint64_t ip_wait_parts_waited(const struct ip_wait_parts *parts);

/* The waits of an owner in an array that is sorted by owner: the first one, and their number. */
const struct ip_wait_sum *ip_wait_sums_of(const struct ip_wait_sum *sums, size_t n, uint32_t owner,
					  size_t *ret_n);

#endif
