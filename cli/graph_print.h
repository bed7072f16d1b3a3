/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the calling-context trees of iprobe graph: as an indented tree, as callers and callees,
 * as JSON, and for Graphviz.
 */
#ifndef IP_CLI_GRAPH_PRINT_H
#define IP_CLI_GRAPH_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "analysis/profile/calltree.h"
#include "analysis/read/names.h"

struct cli_graph {
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_tree_threads *threads;
	struct ip_calltree *tree;
	size_t max_depth;   /* levels of rows that are shown, threads included; SIZE_MAX: all */
	double min_percent; /* rows that cost less of the total are not shown */
	bool bottom_up;	    /* the tree is inverted */
	bool by_thread;	    /* the tree has the threads as a level */
	bool by_process;    /* it has the processes as a level, in the place of threads */
	uint32_t tid;	    /* the tree is of this thread only; 0: of all */
	bool idle;	    /* idle waits count as other time does */
	bool idle_known;    /* else: the trace does not tell which time was idle */
	/* a call path that has most of the time, in long calls: perhaps it was idle; 0: none */
	uint32_t waits;
};

/* Prints a line on the time that was idle, where that is to be told. */
void cli_graph_print_idle(const struct cli_graph *g);
void cli_graph_tree(const struct cli_graph *g);
void cli_graph_json(const struct cli_graph *g);

/* Prints the callers, the function and its callees for each wanted function, as gprof does.
 * Returns the number of functions that have one, or -1 with an error. */
ssize_t cli_graph_callers(const struct cli_graph *g, const bool *wanted);
/* Prints the functions and their calls of each other. Returns 0, or -1 with an error. */
int cli_graph_dot(const struct cli_graph *g);

#endif
