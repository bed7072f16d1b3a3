/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow calls of a function beside a usual one, node by node of what they call. The calls of one
 * path are a node; what it takes itself, outside of its callees, is what is compared: so the
 * differences of all nodes sum up to that of the calls.
 */
#ifndef IP_CLI_COMPARE_CALLS_H
#define IP_CLI_COMPARE_CALLS_H

#include "analysis/darc/values/node_values.h"
#include "cli/darc/compare/compare_values.h"
#include "cli/darc/darc_load.h"

struct cli_compare_options {
	const struct cli_filter *filter; /* its functions: the one whose calls are compared */
	size_t slowest;
	uint32_t depth;
	bool json;
	bool limited;	  /* the user has told how many call paths */
	const char *html; /* the page that is written; NULL: none */
};

/* What a node takes, in ticks and calls. */
struct cli_compare_node {
	uint32_t node;
	uint64_t slow, usual, slow_calls, usual_calls;
};

struct cli_compare_calls {
	const struct cli_compare_options *options;
	const struct cli_darc_trace *trace;    /* its search has the latencies and the ftree */
	const struct ip_darc_operation **slow; /* the slowest first */
	size_t nslow;
	const struct ip_darc_operation *usual; /* of the median */
	/* what came with the calls in each slow one, and in the usual one behind these */
	const struct ip_node_values *values;
};

/* The nodes of a slow call and the usual one, by the size of their difference. The caller frees the
 * array. NULL with an error. */
struct cli_compare_node *cli_compare_nodes(const struct cli_compare_calls *c,
					   const struct ip_darc_operation *slow, size_t *ret_n);

/* What differs between the longest calls of a node in a slow call, by its number, and in the usual
 * one. */
struct cli_compare_values cli_compare_values_of(const struct cli_compare_calls *c, size_t number,
						uint32_t node);

/* Compares, and prints. Returns 0, or -1 with an error. */
int cli_compare_calls(const char *dir, const struct cli_compare_options *options);

/* Print. Return 0, or -1 with an error. */
int cli_compare_text(const struct cli_compare_calls *c);
int cli_compare_json(const struct cli_compare_calls *c);

/* Puts the same as a member, key NULL: as the document. Returns 0, or -1 with an error. */
int cli_compare_json_put(struct ip_json *j, const char *key, const struct cli_compare_calls *c);

/* Writes a page. Returns 0, or -1 with an error. */
int cli_compare_html(const struct cli_compare_calls *c, const char *path);

#endif
