/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the ftree.
 */
#include "analysis/darc/ftree.h"

#include <stdlib.h>

#include "common/array.h"
#include "common/error.h"

#define SIZE_FIRST 256u

static size_t hash(const struct ip_ftree_node *n)
{
	uint64_t x = n->call_site + ((uint64_t)n->parent << 32 | n->function) +
		     ((uint64_t)n->member << 17);

	x *= 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return x ^ x >> 32;
}

static int rehash(struct ip_ftree *t)
{
	const size_t size = t->size ? 2 * t->size : SIZE_FIRST;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	for (size_t i = 0; i < t->n; i++) {
		size_t slot = hash(&t->nodes[i]) & (size - 1);

		while (index[slot])
			slot = (slot + 1) & (size - 1);
		index[slot] = i + 1;
	}
	free(t->index);
	t->index = index;
	t->size = size;
	return 0;
}

static uint32_t add(struct ip_ftree *t, const struct ip_ftree_node *node)
{
	size_t slot;

	if (t->n == IP_FTREE_FULL) {
		ip_error("too many call paths");
		return IP_FTREE_NONE;
	}
	if ((2 * (t->n + 1) > t->size && rehash(t) < 0) ||
	    ip_array_grow(&t->nodes, t->n, sizeof(*node)) < 0)
		return IP_FTREE_NONE;
	for (slot = hash(node) & (t->size - 1); t->index[slot];)
		slot = (slot + 1) & (t->size - 1);
	t->nodes[t->n] = *node;
	t->index[slot] = ++t->n;
	return t->n - 1;
}

int ip_ftree_begin(struct ip_ftree *ret, uint32_t function)
{
	*ret = (struct ip_ftree){0};
	return add(ret, &(struct ip_ftree_node){.parent = IP_FTREE_NONE, .function = function}) ==
			       IP_FTREE_NONE
		       ? -1
		       : 0;
}

void ip_ftree_clear(struct ip_ftree *t)
{
	free(t->nodes);
	free(t->index);
	*t = (struct ip_ftree){0};
}

uint32_t ip_ftree_child(struct ip_ftree *t, uint32_t parent, uint32_t function, uint32_t member,
			uint64_t call_site)
{
	const struct ip_ftree_node node = {.parent = parent,
					   .function = function,
					   .depth = t->nodes[parent].depth + 1,
					   .member = call_site ? member : 0,
					   .call_site = call_site};
	uint32_t child;

	for (size_t slot = hash(&node) & (t->size - 1); t->index[slot];
	     slot = (slot + 1) & (t->size - 1)) {
		const struct ip_ftree_node *n = &t->nodes[t->index[slot] - 1];

		if (n->parent == parent && n->function == function && n->call_site == call_site &&
		    n->member == node.member)
			return t->index[slot] - 1;
	}
	if (call_site && t->nodes[parent].nchildren >= IP_FTREE_SITES_MOST)
		return ip_ftree_child(t, parent, function, 0, 0);
	if (t->nodes[parent].nchildren >= IP_FTREE_CHILDREN_MOST)
		return IP_FTREE_FULL;
	child = add(t, &node);
	if (child != IP_FTREE_NONE)
		t->nodes[parent].nchildren++;
	return child;
}
