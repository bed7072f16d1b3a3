/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling-context tree of another trace laid over that of one, for comparing them. Functions
 * are the same where their linker names and the names of their files are.
 */
#ifndef IP_TREE_COMPARE_H
#define IP_TREE_COMPARE_H

#include "analysis/profile/calltree.h"

struct ip_tree_compare {
	/* What the other trace spent in each node of the tree, which has got nodes for what it
	 * alone has. Times in its own ticks. */
	struct ip_tree_compare_node {
		uint64_t total, self;
	} * nodes;
	uint64_t ticks; /* of the other's tree */
	/* Functions that the other alone has: they are session->nfunctions and up in the tree, and
	 * these in the other session. */
	uint32_t *functions;
	uint32_t nfunctions;
};

/* Reads the whole of other; tree is that of a trace with this session. roots: of the other's
 * functions, see struct ip_calltree_options. 0, or -1 with an error. */
int ip_tree_compare_create(struct ip_calltree *tree, const struct ip_recording *session,
			   struct ip_trace_reader *other, const bool *roots,
			   struct ip_tree_compare **ret);
void ip_tree_compare_destroy(struct ip_tree_compare *tree_compare);

#endif
