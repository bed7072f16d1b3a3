/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other views of a calling-context tree: inverted, sorted, and as pairs of caller and callee.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/profile/calltree.h"
#include "common/cleanup.h"
#include "common/error.h"

bool ip_calltree_was_reached(const struct ip_calltree *tree, const struct ip_call_node *node)
{
	return (node->calls || node->total || node->self) &&
	       !ip_tree_thread_of(tree->options.threads, node->function);
}

struct ip_calltree *ip_calltree_invert(const struct ip_calltree *tree, const bool *wanted)
{
	struct ip_calltree *below = ip_calltree_create();

	for (uint32_t i = 1; below && i < tree->n; i++) {
		const struct ip_call_node *from = &tree->nodes[i];
		uint32_t at = 0, levels = 0;

		if (!ip_calltree_was_reached(tree, from) || (wanted && !wanted[from->function]))
			continue;
		for (uint32_t up = i; up && levels <= IP_CALLERS_MAX;
		     up = tree->nodes[up].parent, levels++) {
			at = ip_calltree_child(below, at, tree->nodes[up].function);
			if (at == IP_NO_NODE) {
				ip_calltree_destroy(below);
				return NULL;
			}
			below->nodes[at].calls += from->calls;
			below->nodes[at].self += from->self;
			below->nodes[at].total += from->outer;
			below->nodes[at].idle_self += from->idle_self;
			below->nodes[at].idle += from->idle_outer;
		}
		below->ticks += from->self;
		below->idle += from->idle_self;
	}
	if (below)
		below->events = tree->events;
	return below;
}

void ip_calltree_take_off_idle(struct ip_calltree *tree)
{
	for (size_t i = 0; i < tree->n; i++) {
		struct ip_call_node *node = &tree->nodes[i];

		node->total -= node->idle;
		node->outer -= node->idle_outer;
		node->self -= node->idle_self;
	}
	tree->ticks -= tree->idle;
}

struct child {
	uint32_t node;
	uint64_t key;
};

static int by_key(const void *a, const void *b)
{
	const struct child *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

int ip_calltree_sort(struct ip_calltree *tree, enum ip_calltree_order order)
{
	_cleanup_free_ struct child *children = malloc(tree->n * sizeof(*children));

	if (!children)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < tree->n; i++) {
		uint32_t *link = &tree->nodes[i].first_child;
		size_t n = 0;

		for (uint32_t c = *link; c != IP_NO_NODE; c = tree->nodes[c].next_sibling)
			children[n++] =
				(struct child){c, order == IP_BY_SELF ? tree->nodes[c].self
								      : tree->nodes[c].total};
		qsort(children, n, sizeof(*children), by_key);
		for (size_t k = 0; k < n; k++) {
			*link = children[k].node;
			link = &tree->nodes[children[k].node].next_sibling;
		}
		*link = IP_NO_NODE;
	}
	return 0;
}

static int by_pair(const void *a, const void *b)
{
	const struct ip_call_arc *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	return (x->callee > y->callee) - (x->callee < y->callee);
}

static int by_caller(const void *a, const void *b)
{
	const struct ip_call_arc *x = a, *y = b;

	if (x->caller != y->caller)
		return x->caller < y->caller ? -1 : 1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return by_pair(a, b);
}

ssize_t ip_calltree_arcs(const struct ip_calltree *tree, struct ip_call_arc **ret)
{
	struct ip_call_arc *arcs = malloc(tree->n * sizeof(*arcs));
	size_t n = 0, merged = 0;

	if (!arcs)
		return ip_error("out of memory");
	for (uint32_t i = 1; i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];

		if (ip_calltree_was_reached(tree, node))
			arcs[n++] = (struct ip_call_arc){tree->nodes[node->parent].function,
							 node->function, node->calls, node->outer,
							 node->self};
	}
	qsort(arcs, n, sizeof(*arcs), by_pair);
	for (size_t i = 0; i < n; i++) {
		struct ip_call_arc *last = merged ? &arcs[merged - 1] : NULL;

		if (last && last->caller == arcs[i].caller && last->callee == arcs[i].callee) {
			last->calls += arcs[i].calls;
			last->total += arcs[i].total;
			last->self += arcs[i].self;
		} else {
			arcs[merged++] = arcs[i];
		}
	}
	qsort(arcs, merged, sizeof(*arcs), by_caller);
	*ret = arcs;
	return merged;
}
