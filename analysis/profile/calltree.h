/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling-context tree of a trace. It has one node for each call path by which a function
 * was reached, over all threads, with the time that was spent there. Memory is bounded by the
 * number of different call paths, not of events.
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
#include "analysis/profile/tree_threads.h"

#define IP_NO_NODE UINT32_MAX

/* Times in TSC ticks. */
struct ip_call_node {
	/* Index into session->functions, or the number of a thread (tree_threads.h). Node 0 has
	 * no function: its children are where call paths begin, or the threads. */
	uint32_t function;
	uint32_t parent;
	uint32_t first_child, next_sibling; /* IP_NO_NODE: none */
	uint64_t
		calls; /* without those that were open at the attach; their times are in the node */
	/* Callees included. In a folded tree: only of frames that lie in no other frame of this
	 * node. */
	uint64_t total;
	/* The part of total of frames that lie in no other frame of the same function, in any
	 * node. */
	uint64_t outer;
	uint64_t self;
	/* of total, outer and self, what was idle (analysis/wait/idle/idle_tree.h); 0: not known */
	uint64_t idle, idle_outer, idle_self;
};

struct ip_calltree {
	struct ip_call_node *nodes;
	size_t n;
	/* By function or thread: the time of some calls ends at a tail call to a function without
	 * events. */
	bool *until_tail;
	size_t nnumbers; /* of until_tail */
	uint64_t events;
	uint64_t ticks; /* of all threads together, in the functions where call paths begin */
	uint64_t idle;	/* of ticks; 0: not known */
	/* Private: */
	struct ip_call_near *near; /* by node; allocated for room nodes */
	/* Sums by node, while the tree grows from frames; then they are moved into the nodes. */
	struct ip_call_sum *sums;
	size_t room;
	/* hash table of the children of nodes that have more children than fit into near; 0:
	 * free */
	uint32_t *index;
	size_t index_n, index_size;
	/* by node, for nopen nodes: its open frames; kept only while counting is true */
	uint32_t *open;
	size_t nopen;
	bool counting;
	struct ip_calltree_options {
		/* by function: call paths begin at these; NULL: at the outermost calls */
		const bool *roots;
		/* A function that calls itself, directly or not, has one node only: the outer
		 * one. */
		bool fold;
		uint32_t tid; /* this thread only; 0: all threads */
		/* The first level are these threads of the trace, below each of them its calls. A
		 * thread's node has the total of these, and no calls or time of its own. They must
		 * outlive the tree. NULL: threads are not told apart. */
		const struct ip_tree_threads *threads;
	} options;
	/* node at which call paths begin: 0, or that of the thread, IP_NO_NODE until that has a
	 * call
	 */
	uint32_t base;
	uint32_t thread;		      /* the number of the thread */
	const struct ip_thread_packets *runs; /* of the trace */
	bool skip, failed;
};

/* Reads the whole trace. Returns 0, or -1 with an error. */
int ip_calltree_collect(struct ip_trace_reader *trace, const struct ip_calltree_options *wanted,
			struct ip_calltree **ret);

/* For views that are made of another tree. ip_calltree_create() returns an empty tree, NULL with
 * an error where memory ran out. ip_calltree_child() returns the child of a node for a function
 * and makes it where it does not exist; IP_NO_NODE with an error where memory ran out.
 * ip_calltree_destroy() frees a tree. */
struct ip_calltree *ip_calltree_create(void);
uint32_t ip_calltree_child(struct ip_calltree *tree, uint32_t parent, uint32_t function);
void ip_calltree_destroy(struct ip_calltree *tree);

/* The most levels of callers: without a limit a recursion 100,000 calls deep would have five
 * billion nodes. */
#define IP_CALLERS_MAX 512u

/* Whether calls reached the node: those that were open at the attach, too, which are no calls of
 * the recording. A thread's node was not called. */
bool ip_calltree_was_reached(const struct ip_calltree *tree, const struct ip_call_node *node);

/* Makes the inverted tree: below each function lie its callers, below them their callers, at
 * most IP_CALLERS_MAX levels. calls and self of a node are those of the function in the first
 * level when it was reached by that path. wanted: by function; NULL: all. Returns NULL with an
 * error. */
struct ip_calltree *ip_calltree_invert(const struct ip_calltree *tree, const bool *wanted);

/* Takes idle times off the others. */
void ip_calltree_take_off_idle(struct ip_calltree *tree);

enum ip_calltree_order { IP_BY_TOTAL, IP_BY_SELF };

/* Sorts the children of each node, the most expensive first. Returns 0, or -1 with an error. */
int ip_calltree_sort(struct ip_calltree *tree, enum ip_calltree_order order);

/* A pair of caller and callee, over all call paths. calls is 0 where the only calls were open at
 * the attach. */
struct ip_call_arc {
	uint32_t caller, callee; /* functions; caller IP_NO_NODE: no caller was recorded */
	uint64_t calls, total, self;
};

/* Makes all pairs of nodes that were reached, sorted by caller, then the most expensive callee
 * first. *ret is malloc'ed. Returns their number, or -1 with an error. */
ssize_t ip_calltree_arcs(const struct ip_calltree *tree, struct ip_call_arc **ret);

#endif
