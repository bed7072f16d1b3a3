/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the calling-context trees of two traces: the tree of the other trace is laid over the
 * tree of the first. Functions are the same where their linker names and the names of their
 * modules' files are.
 */
#ifndef IP_TREE_COMPARE_H
#define IP_TREE_COMPARE_H

#include "analysis/profile/calltree.h"

struct ip_tree_compare {
	/* The time that the other trace spent in each node of the tree. The tree gets nodes for
	 * call paths that only the other trace has. Times are in ticks of the other trace. */
	struct ip_tree_compare_node {
		uint64_t total, self;
	} * nodes;
	uint64_t ticks; /* ticks of the other trace's tree */
	/* The functions that only the other trace has. In the tree functions[i] has the index
	 * session->nfunctions + i; the value is its index in the other session. */
	uint32_t *functions;
	uint32_t nfunctions;
};

/* Reads the whole trace other. tree is that of a trace with this session. roots is by function
 * of the other trace, see struct ip_calltree_options. Returns 0, or -1 with an error. */
int ip_tree_compare_create(struct ip_calltree *tree, const struct ip_recording *session,
			   struct ip_trace_reader *other, const bool *roots,
			   struct ip_tree_compare **ret);
void ip_tree_compare_destroy(struct ip_tree_compare *tree_compare);

#endif
