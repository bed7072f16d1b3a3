/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling-context tree of a trace: one node for each way of calls by which a function was
 * reached, over all threads, with what was spent there. Memory is bounded by different ways, not by
 * events.
 *
 * Ammons, Ball, Larus: Exploiting hardware performance counters with flow and context sensitive
 * profiling, 1997.
 */
#ifndef IP_CALLTREE_H
#define IP_CALLTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

#define IP_NO_NODE UINT32_MAX

/* Times in TSC ticks. */
struct ip_call_node {
	/* index into session->functions; of node 0, whose children are where ways begin, it means
	 * nothing */
	uint32_t function;
	uint32_t parent;
	uint32_t first_child, next_sibling; /* IP_NO_NODE: none */
	uint64_t calls;
	/* callees included. Folded: of the frames that no other one of this node holds */
	uint64_t total;
	/* the part of total that frames have which no frame of the same function holds, wherever */
	uint64_t outer;
	uint64_t self;
};

struct ip_calltree {
	struct ip_call_node *nodes;
	size_t n;
	/* by function: of some calls the time ends at a tail call to where nothing is known */
	bool *until_tail;
	uint64_t events;
	uint64_t ticks; /* of all threads together in the functions where ways begin */
	/* private */
	struct ip_call_near *near; /* by node, room of them */
	/* the same, while the tree grows from frames; then nodes have them */
	struct ip_call_sum *sums;
	size_t room;
	uint32_t *index; /* children of nodes that have more than fit into near; 0: free */
	size_t index_n, index_size;
	uint32_t *open; /* by node, nopen of them: frames of it that are; counted while counting */
	size_t nopen;
	bool counting;
	struct ip_calltree_options {
		/* by function: ways begin at these; NULL: at the outermost calls */
		const bool *roots;
		/* a function that calls itself, directly or not, is one node: the outer one */
		bool fold;
		uint32_t tid; /* of this thread alone; 0: of all */
	} options;
	bool skip, failed;
};

/* Reads the whole trace. 0, or -1 with an error. */
int ip_calltree_collect(struct ip_trace_reader *trace, const struct ip_calltree_options *options,
			struct ip_calltree **ret);

/* An empty tree, and the child of a node for a function, made where it is not there: for views
 * made of another tree. IP_NO_NODE with an error where memory ran out. */
struct ip_calltree *ip_calltree_create(void);
uint32_t ip_calltree_child(struct ip_calltree *tree, uint32_t parent, uint32_t function);
void ip_calltree_destroy(struct ip_calltree *tree);

/* Levels of callers: a recursion 100,000 calls deep would have five billion. */
#define IP_CALLERS_MAX 512u

/* The same from the other end: below each function its callers, below them theirs, so many
 * levels; calls and self are those of the function in the first row, reached by that way. NULL
 * with an error. wanted: by function, NULL: all. */
struct ip_calltree *ip_calltree_invert(const struct ip_calltree *tree, const bool *wanted);

enum ip_calltree_order { IP_BY_TOTAL, IP_BY_SELF };

/* Puts the children of each node in order, the most expensive first. 0, or -1 with an error. */
int ip_calltree_sort(struct ip_calltree *tree, enum ip_calltree_order order);

/* Caller and callee, over all ways. */
struct ip_call_arc {
	uint32_t caller, callee; /* functions; caller IP_NO_NODE: none that was recorded */
	uint64_t calls, total, self;
};

/* All pairs, by caller, the most expensive callee first; *ret is malloc'ed. How many, or -1 with an
 * error. */
ssize_t ip_calltree_arcs(const struct ip_calltree *tree, struct ip_call_arc **ret);

#endif
