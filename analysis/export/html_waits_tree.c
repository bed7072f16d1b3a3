/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the tree of call paths by their time off the CPU, as the flame graph has it. html_waits.c
 * has its form.
 */
#include <stdlib.h>

#include "analysis/export/html_waits_private.h"
#include "common/cleanup.h"
#include "common/error.h"

#define NODES 20000u

static int by_weight(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a > b ? -1 : a < b;
}

/* The tree of call paths with objects as its leaves, which stand behind the last function. *ret_n:
 * the number of functions and threads. */
static struct ip_calltree *grow_tree(struct ip_html_waits_writer *p)
{
	struct ip_calltree *tree = p->paths->tree;
	const uint32_t objects = p->options->nshown;

	/* a leaf is made behind all nodes: callers have lower indexes still */
	for (size_t i = 0; i < p->paths->n; i++) {
		const struct ip_wait_path *path = &p->paths->items[i];
		uint32_t node;

		if (path->object == IP_PATH_CPU || path->object == IP_PATH_UNKNOWN ||
		    path->object == IP_PATH_IDLE)
			continue;
		node = ip_calltree_child(
			tree, path->node,
			path->object == IP_PATH_RUNQUEUE ? objects : objects + 1 + path->object);
		if (node == IP_NO_NODE)
			return NULL;
		tree->nodes[node].self += path->ticks;
		tree->nodes[node].calls += path->count;
	}
	for (size_t i = 0; i < tree->n; i++)
		tree->nodes[i].total = tree->nodes[i].self;
	for (size_t i = tree->n; i-- > 1;)
		tree->nodes[tree->nodes[i].parent].total += tree->nodes[i].total;
	return tree;
}

/* The most that a node may weigh and be left out. */
static int least_weight(const struct ip_calltree *tree, uint64_t *ret)
{
	_cleanup_free_ uint64_t *weights = NULL;

	*ret = 0;
	if (tree->n <= NODES)
		return 0;
	weights = calloc(tree->n, sizeof(*weights));
	if (!weights)
		return ip_error("out of memory");
	for (size_t i = 0; i < tree->n; i++)
		weights[i] = tree->nodes[i].total;
	qsort(weights, tree->n, sizeof(*weights), by_weight);
	*ret = weights[NODES];
	return 0;
}

int ip_html_waits_put_tree(struct ip_html_waits_writer *p)
{
	const struct ip_calltree *tree = grow_tree(p);
	const uint32_t objects = p->options->nshown;
	_cleanup_free_ uint32_t *index = tree ? calloc(tree->n, sizeof(*index)) : NULL;
	uint64_t least, n = 1, left_out = 0;

	if (!tree)
		return -1;
	if (!index)
		return ip_error("out of memory");
	if (least_weight(tree, &least) < 0)
		return -1;
	ip_json_object(&p->j, "tree");
	ip_json_uint(&p->j, "width", 5);
	ip_json_array(&p->j, "nodes");
	for (size_t i = 1; i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];
		const uint32_t function = node->function;

		if (!node->total)
			continue;
		if (node->total <= least || (node->parent && !index[node->parent]) ||
		    (function < objects && p->options->shown[function] == IP_HTML_NO_FUNCTION)) {
			left_out++;
			continue;
		}
		index[i] = n++;
		if (function < objects)
			ip_json_uint(&p->j, NULL, p->options->shown[function]);
		else
			ip_json_int(&p->j, NULL,
				    -1 - (int64_t)ip_html_waits_object(
						 p, function == objects ? IP_PATH_RUNQUEUE
									: function - objects - 1));
		ip_json_uint(&p->j, NULL, index[node->parent]);
		ip_json_uint(&p->j, NULL, node->calls);
		ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, node->total));
		ip_json_uint(&p->j, NULL, ip_html_waits_ns(p, node->self));
	}
	ip_json_end_array(&p->j);
	ip_json_uint(&p->j, "left_out", left_out);
	ip_json_end_object(&p->j);
	return 0;
}
