/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways of calls that are too deep to be written whole. A recursion 100,000 calls deep has as many
 * ways, and together they would be five billion calls long. Of those deeper than IP_WAY_MAX only
 * the innermost calls are told; ways that are the same in these become one.
 */
#ifndef IP_DEEP_PATHS_H
#define IP_DEEP_PATHS_H

#include "analysis/profile/calltree.h"

#define IP_WAY_MAX 512u

struct ip_deep_path {
	uint32_t node; /* one of those that have the way */
	uint64_t calls, self;
	uint64_t hash[2]; /* private; both 0: free */
};

struct ip_deep_paths {
	uint32_t *depths;	   /* of each node, 1: an outermost call */
	struct ip_deep_path *ways; /* size of them; those with a node that is not 0 are there */
	size_t n, size;
};

/* Finds all of a tree. 0, or -1 with an error; to be cleared in any case. */
int ip_deep_paths_find(const struct ip_calltree *tree, struct ip_deep_paths *ret);
void ip_deep_paths_clear(struct ip_deep_paths *ways);

#endif
