/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes trees of wait profiles.
 */
#include "analysis/wait/wait_tree.h"

#include <stdlib.h>

#include "analysis/wait/wait_sums.h"
#include "common/error.h"

uint64_t ip_wait_parts_waited(const struct ip_wait_parts *p)
{
	return p->elapsed - p->cpu - p->unknown - p->idle;
}

const struct ip_wait_sum *ip_wait_sums_of(const struct ip_wait_sum *sums, size_t n, uint32_t owner,
					  size_t *ret_n)
{
	size_t low = 0, high = n, end;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (sums[middle].owner < owner)
			low = middle + 1;
		else
			high = middle;
	}
	for (end = low; end < n && sums[end].owner == owner; end++)
		;
	*ret_n = end - low;
	return sums + low;
}

static void add(struct ip_wait_parts *to, const struct ip_wait_parts *parts)
{
	to->elapsed += parts->elapsed;
	to->cpu += parts->cpu;
	to->runqueue += parts->runqueue;
	to->unknown += parts->unknown;
	to->idle += parts->idle;
}

/* Finds the node of each node of the profile; 0: it lies in no root. */
static int map_nodes(struct ip_wait_tree *t, const struct ip_wait_profile *p, const bool *roots,
		     uint32_t *map)
{
	for (size_t i = 1; i < p->tree->n; i++) {
		const struct ip_call_node *node = &p->tree->nodes[i];
		const uint32_t above = map[node->parent];

		if (roots && !above && !roots[node->function])
			continue;
		map[i] = ip_calltree_child(t->paths, above, node->function);
		if (map[i] == IP_NO_NODE)
			return -1;
	}
	return 0;
}

static int fill(struct ip_wait_tree *t, const struct ip_wait_profile *p, const uint32_t *map)
{
	struct ip_wait_sums sums = {0};
	int ret = 0;

	t->calls = calloc(t->paths->n, sizeof(*t->calls));
	t->total = calloc(t->paths->n, sizeof(*t->total));
	if (!t->calls || !t->total)
		return ip_error("out of memory");
	for (size_t i = 1; i < p->tree->n; i++)
		if (map[i]) {
			t->calls[map[i]] += p->calls[i];
			add(&t->total[map[i]], &p->own[i]);
		}
	for (size_t i = t->paths->n; i-- > 1;)
		add(&t->total[t->paths->nodes[i].parent], &t->total[i]);
	for (size_t i = 0; ret == 0 && i < p->nown_waits; i++) {
		const struct ip_wait_sum *w = &p->own_waits[i];

		if (map[w->owner])
			ret = ip_wait_sums_add_sum(&sums, map[w->owner], w);
	}
	if (ret == 0)
		ip_wait_sums_sort(&sums, &t->waits, &t->nwaits);
	ip_wait_sums_clear(&sums);
	return ret;
}

struct ip_wait_tree *ip_wait_tree_make(const struct ip_wait_profile *p, const bool *roots)
{
	struct ip_wait_tree *t = calloc(1, sizeof(*t));
	uint32_t *map = calloc(p->tree->n, sizeof(*map));
	int ret = t && map ? 0 : ip_error("out of memory");

	if (ret == 0) {
		t->paths = ip_calltree_create();
		ret = t->paths && map_nodes(t, p, roots, map) == 0 ? fill(t, p, map) : -1;
	}
	free(map);
	if (ret == 0)
		return t;
	ip_wait_tree_destroy(t);
	return NULL;
}

void ip_wait_tree_destroy(struct ip_wait_tree *t)
{
	if (!t)
		return;
	ip_calltree_destroy(t->paths);
	free(t->calls);
	free(t->total);
	free(t->waits);
	free(t);
}
