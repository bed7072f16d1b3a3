/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the ftree out of the state of a search. A node stands behind its parent.
 */
#include <stdlib.h>

#include "cli/darc/darc_state_values.h"
#include "common/error.h"

#define CAUSES_MOST 1000u

/* The index of a node that was read already. */
static int find_node(const struct cli_state_object *f, const char *key,
		     const struct cli_darc_state *state, uint32_t *ret)
{
	uint64_t number;

	if (cli_state_number(f, key, IP_FTREE_FULL, &number) < 0)
		return -1;
	for (size_t i = 0; i < state->nnodes; i++)
		if (state->nodes[i].number == number) {
			*ret = (uint32_t)i;
			return 0;
		}
	return cli_state_error(f, NULL, key, "there is no such node before it");
}

static int read_node(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	struct cli_darc_state_node n = {.parent = IP_FTREE_NONE};
	uint64_t number = 0, depth = 0;
	int code = -1;

	if (cli_state_number(f, "node", IP_FTREE_FULL, &number) == 0 &&
	    cli_state_number(f, "depth", IP_DARC_DEPTH_MOST, &depth) == 0 &&
	    (cli_state_is_null(ip_yaml_get(f->object, "parent")) ||
	     find_node(f, "parent", ret, &n.parent) == 0) &&
	    cli_state_text(f, "call_site", true, &n.call_site) == 0 &&
	    cli_state_bool(f, "root_cause", &n.cause) == 0 &&
	    cli_state_number(f, "looked_at", UINT64_MAX, &n.looked_at) == 0 &&
	    cli_state_number(f, "maxcount", UINT64_MAX, &n.maxcount) == 0 &&
	    cli_state_number(f, "longest_ns", UINT64_MAX, &n.longest_ns) == 0 &&
	    cli_state_number(f, "usual_longest_ns", UINT64_MAX, &n.usual_longest_ns) == 0 &&
	    cli_state_text(f, "function", false, &n.function) == 0)
		code = 0;
	n.number = (uint32_t)number;
	n.depth = (uint32_t)depth;
	if (code == 0 && (ret->nnodes == 0) != (n.parent == IP_FTREE_NONE))
		code = cli_state_error(f, NULL, "parent", "the first node alone has none");
	if (code == 0 && n.depth != (ret->nnodes ? ret->nodes[n.parent].depth + 1 : 0))
		code = cli_state_error(f, NULL, "depth",
				       "it is not one more than that of the parent");
	ret->nodes[ret->nnodes++] = n;
	return code;
}

static int read_nodes(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	const struct ip_yaml *list = cli_state_list(f, "ftree", CLI_DARC_STATE_NODES_MAX);

	if (!list)
		return -1;
	ret->nodes = calloc(list->n + 1, sizeof(*ret->nodes));
	if (!ret->nodes)
		return ip_error("out of memory");
	for (size_t i = 0; i < list->n; i++) {
		const struct cli_state_object in = {f->document, list->items[i]};

		if (in.object->kind != IP_YAML_MAP)
			return cli_state_error(f, in.object, "ftree", "an object is needed");
		if (read_node(&in, ret) < 0)
			return -1;
	}
	return 0;
}

static int read_causes(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	const struct ip_yaml *list = cli_state_list(f, "paths", CAUSES_MOST);

	if (!list)
		return -1;
	ret->causes = calloc(list->n + 1, sizeof(*ret->causes));
	if (!ret->causes)
		return ip_error("out of memory");
	for (size_t i = 0; i < list->n; i++) {
		const struct cli_state_object in = {f->document, list->items[i]};
		struct cli_darc_state_cause *c = &ret->causes[ret->ncauses++];
		struct cli_state_object cause;

		if (in.object->kind != IP_YAML_MAP)
			return cli_state_error(f, in.object, "paths", "an object is needed");
		cause = (struct cli_state_object){f->document,
						  cli_state_get(&in, "cause", IP_YAML_MAP)};
		if (!cause.object || cli_state_text(&cause, "kind", false, &c->kind) < 0 ||
		    cli_state_real(&in, "share", 1, &c->share) < 0 ||
		    find_node(&in, "node", ret, &c->node) < 0)
			return -1;
	}
	return 0;
}

int cli_darc_state_read_tree(const struct cli_state_object *f, struct cli_darc_state *ret)
{
	return read_nodes(f, ret) < 0 ? -1 : read_causes(f, ret);
}
