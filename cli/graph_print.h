/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How iprobe graph shows calling-context trees: as an indented tree, as callers and callees, as
 * JSON, for Graphviz.
 */
#ifndef IP_CLI_GRAPH_PRINT_H
#define IP_CLI_GRAPH_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/profile/calltree.h"
#include "analysis/read/names.h"

struct cli_graph {
	struct ip_trace_reader *trace;
	struct ip_names *names;
	struct ip_calltree *tree;
	size_t max_depth;   /* rows below it are not shown; SIZE_MAX: no limit */
	double min_percent; /* nor those that cost less, of all */
	bool bottom_up;	    /* the tree is an inverted one */
};

void cli_graph_tree(const struct cli_graph *g);
void cli_graph_json(const struct cli_graph *g);

/* For each wanted function its callers, itself, its callees, as gprof shows them. 0, or -1 with an
 * error. */
int cli_graph_callers(const struct cli_graph *g, const bool *wanted);
/* The functions and who calls whom. 0, or -1 with an error. */
int cli_graph_dot(const struct cli_graph *g);

#endif
