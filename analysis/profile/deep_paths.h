/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call paths that are too deep to be written whole. A recursion 100,000 calls deep has 100,000
 * call paths, which together are five billion calls long. Of a path deeper than IP_WAY_MAX only
 * the innermost calls are written. Paths that have the same innermost calls become one, unless they
 * are of different threads and the tree tells threads apart.
 */
#ifndef IP_DEEP_PATHS_H
#define IP_DEEP_PATHS_H

#include "analysis/profile/calltree.h"

#define IP_WAY_MAX 512u

struct ip_deep_path {
	uint32_t node; /* one of the nodes that have the path */
	uint64_t calls, self;
	uint64_t hash[2]; /* private; both 0: free */
};

struct ip_deep_paths {
	uint32_t *depths;	   /* by node; the depth of an outermost call is 1 */
	uint32_t *threads;	   /* by node: its thread's node; NULL: not told apart */
	struct ip_deep_path *ways; /* size of them; an element is used where its node is not 0 */
	size_t n, size;
};

/* Finds all deep paths of a tree. Returns 0, or -1 with an error. The caller clears *ret in both
 * cases. */
int ip_deep_paths_find(const struct ip_calltree *tree, struct ip_deep_paths *ret);
void ip_deep_paths_clear(struct ip_deep_paths *ways);

#endif
