/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges deep call paths by a hash of 128 bits of their innermost calls. A trace file that was
 * made to collide spoils only its own picture.
 */
#include "analysis/profile/deep_paths.h"

#include <stdlib.h>

#include "common/error.h"

static void hash_way(const struct ip_calltree *tree, uint32_t node, uint32_t thread,
		     uint64_t ret[2])
{
	uint64_t a = 0x9e3779b97f4a7c15ull ^ thread, b = 0xcbf29ce484222325ull ^ thread;

	for (unsigned i = 0; i < IP_WAY_MAX; i++, node = tree->nodes[node].parent) {
		uint64_t function = tree->nodes[node].function + 1ull;

		a = (a ^ function) * 0xff51afd7ed558ccdull;
		a ^= a >> 32;
		b = (b ^ function) * 0x100000001b3ull;
	}
	ret[0] = a | 1; /* so it never looks like a free element */
	ret[1] = b;
}

static size_t slot_of(const struct ip_deep_paths *w, const uint64_t hash[2])
{
	size_t at = hash[0] >> 16 & (w->size - 1);

	while (w->ways[at].node &&
	       (w->ways[at].hash[0] != hash[0] || w->ways[at].hash[1] != hash[1]))
		at = (at + 1) & (w->size - 1);
	return at;
}

static int grow(struct ip_deep_paths *w)
{
	struct ip_deep_path *old = w->ways;
	size_t size = w->size;

	w->size = size ? 2 * size : 256;
	w->ways = calloc(w->size, sizeof(*w->ways));
	if (!w->ways) {
		w->ways = old;
		w->size = size;
		return ip_error("out of memory");
	}
	for (size_t i = 0; i < size; i++)
		if (old[i].node)
			w->ways[slot_of(w, old[i].hash)] = old[i];
	free(old);
	return 0;
}

int ip_deep_paths_find(const struct ip_calltree *tree, struct ip_deep_paths *w)
{
	const struct ip_tree_threads *threads = tree->options.threads;

	*w = (struct ip_deep_paths){.depths = calloc(tree->n, sizeof(*w->depths))};
	if (threads)
		w->threads = calloc(tree->n, sizeof(*w->threads));
	if (!w->depths || (threads && !w->threads))
		return ip_error("out of memory");
	/* a parent has a lower index than its children */
	for (uint32_t i = 1; i < tree->n; i++) {
		const struct ip_call_node *node = &tree->nodes[i];
		struct ip_deep_path way = {.node = i};
		size_t at;

		if (threads && ip_tree_thread_of(threads, node->function)) {
			w->threads[i] = i;
			continue; /* not a call */
		}
		if (threads)
			w->threads[i] = w->threads[node->parent];
		w->depths[i] = w->depths[node->parent] + 1;
		if (w->depths[i] <= IP_WAY_MAX || (!node->calls && !node->self))
			continue;
		if (2 * (w->n + 1) > w->size && grow(w) < 0)
			return -1;
		hash_way(tree, i, threads ? w->threads[i] : 0, way.hash);
		at = slot_of(w, way.hash);
		if (!w->ways[at].node) {
			w->ways[at] = way;
			w->n++;
		}
		w->ways[at].calls += node->calls;
		w->ways[at].self += node->self;
	}
	return 0;
}

void ip_deep_paths_clear(struct ip_deep_paths *w)
{
	free(w->depths);
	free(w->threads);
	free(w->ways);
}
