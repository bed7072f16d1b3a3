/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ftree: which calls a function leads to. Node 0 is the function that is searched, F0. A node
 * is a call at one place in the node above it: so a recursion has a node for each level, and a
 * function that is called at two places has two, where the return addresses are known.
 */
#ifndef IP_FTREE_H
#define IP_FTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_FTREE_NONE UINT32_MAX
#define IP_FTREE_FULL (IP_FTREE_NONE - 2)

/* A function that calls others at more places than that is none that a person has written, or a
 * trace that lies: callees of a node are looked for one after the other. Places beyond are told by
 * the function alone, and functions beyond have no node. */
#define IP_FTREE_SITES_MOST    1024u
#define IP_FTREE_CHILDREN_MOST 8192u

/* In the place of a call site: the time in which an object waited to be served by a function, and
 * the call of it, in another thread, that served it (handovers.h). */
#define IP_FTREE_QUEUED (UINT64_MAX - 1)
#define IP_FTREE_SERVED UINT64_MAX

struct ip_ftree_node {
	uint32_t parent; /* IP_FTREE_NONE: of F0 */
	uint32_t function;
	uint32_t depth;	    /* 0: F0 */
	uint32_t member;    /* whose address call_site is (analysis/read/members.h) */
	uint64_t call_site; /* the return address; 0: not known; or IP_FTREE_QUEUED, _SERVED */
	uint32_t nchildren;
};

struct ip_ftree {
	struct ip_ftree_node *nodes;
	size_t n;
	/* Private: open addressing, node + 1. */
	uint32_t *index;
	size_t size;
};

/* Whether a node is what was waited for in another thread; so its call site is none. */
static inline bool ip_ftree_is_elsewhere(const struct ip_ftree_node *node)
{
	return node->call_site >= IP_FTREE_QUEUED;
}

/* Makes the node of F0. The caller clears *ret in any case. Returns 0, or -1 with an error. */
int ip_ftree_begin(struct ip_ftree *ret, uint32_t function);
void ip_ftree_clear(struct ip_ftree *ftree);

/* The node of a call in another one, which is made where it is new. IP_FTREE_NONE with an error;
 * IP_FTREE_FULL: it has none. */
uint32_t ip_ftree_child(struct ip_ftree *ftree, uint32_t parent, uint32_t function, uint32_t member,
			uint64_t call_site);

#endif
