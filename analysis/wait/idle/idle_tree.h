/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idle waits (idle_waits.h) in a calling-context tree: how much of the time of each call path they
 * are.
 */
#ifndef IP_IDLE_TREE_H
#define IP_IDLE_TREE_H

#include "analysis/callstack/trace.h"
#include "analysis/profile/calltree.h"
#include "analysis/wait/idle/idle_waits.h"

/* Fills in the idle times of a tree that ip_calltree_collect() has made of the trace. Where the
 * trace has no events of the kernel nothing is idle. *ret_known: whether it has some. Returns 0, or
 * -1 with an error. */
int ip_idle_tree_fill(struct ip_calltree *tree, struct ip_trace_reader *trace, bool *ret_known);

/* The same, where the idle waits of the trace are there already. */
int ip_idle_tree_fill_from(struct ip_calltree *tree, struct ip_trace_reader *trace,
			   const struct ip_idle_waits *idle);

#endif
