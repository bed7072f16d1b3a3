/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing the tree from frames. Each open frame has its node as tag, so that frames which are left and come back, or end late, are
 * counted where they were called.
 */
#include "analysis/calltree.h"

#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/grow.h"

/* In a tag: the frame is none of the tree's (above where ways begin, or of a thread that is not wanted), or lies within another
 * frame of its node. */
#define TAG_OUTSIDE UINT32_MAX
#define TAG_INNER   (1u << 31)
#define NODES_MAX   (TAG_INNER - 2)

static size_t hash(uint32_t parent, uint32_t function)
{
	uint64_t h = ((uint64_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull;

	return h >> 20;
}

static int grow_index(struct ip_calltree *tree)
{
	size_t size = tree->index_size ? 2 * tree->index_size : 1024;
	uint32_t *index = malloc(size * sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	memset(index, 0xff, size * sizeof(*index));
	for (uint32_t i = 1; i < tree->n; i++) {
		size_t at = hash(tree->nodes[i].parent, tree->nodes[i].function) & (size - 1);

		while (index[at] != IP_NO_NODE)
			at = (at + 1) & (size - 1);
		index[at] = i;
	}
	free(tree->index);
	tree->index = index;
	tree->index_size = size;
	return 0;
}

struct ip_calltree *ip_calltree_create(void)
{
	struct ip_calltree *tree = calloc(1, sizeof(*tree));

	if (!tree || ip_grow(&tree->nodes, 0, sizeof(*tree->nodes)) < 0 || grow_index(tree) < 0) {
		ip_calltree_destroy(tree);
		ip_error("out of memory");
		return NULL;
	}
	tree->nodes[tree->n++] = (struct ip_call_node){.function = IP_NO_NODE,
						       .parent = IP_NO_NODE,
						       .first_child = IP_NO_NODE,
						       .next_sibling = IP_NO_NODE};
	return tree;
}

void ip_calltree_destroy(struct ip_calltree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree->index);
	free(tree);
}

uint32_t ip_calltree_child(struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	uint32_t last = tree->nodes[parent].first_child;
	size_t at;

	/* the child that was made last is called again, most of the time */
	if (last != IP_NO_NODE && tree->nodes[last].function == function)
		return last;
	for (at = hash(parent, function) & (tree->index_size - 1); tree->index[at] != IP_NO_NODE;
	     at = (at + 1) & (tree->index_size - 1)) {
		const struct ip_call_node *node = &tree->nodes[tree->index[at]];

		if (node->parent == parent && node->function == function)
			return tree->index[at];
	}
	if (tree->n >= NODES_MAX || ip_grow(&tree->nodes, tree->n, sizeof(*tree->nodes)) < 0) {
		ip_error("out of memory");
		return IP_NO_NODE;
	}
	tree->nodes[tree->n] = (struct ip_call_node){.function = function,
						     .parent = parent,
						     .first_child = IP_NO_NODE,
						     .next_sibling = tree->nodes[parent].first_child};
	tree->nodes[parent].first_child = tree->n;
	tree->index[at] = tree->n++;
	if (tree->n > tree->index_size / 2 && grow_index(tree) < 0)
		return IP_NO_NODE;
	return tree->n - 1;
}

/* The node of the function among node and those above it. */
static uint32_t find_above(const struct ip_calltree *tree, uint32_t node, uint32_t function)
{
	while (node && tree->nodes[node].function != function)
		node = tree->nodes[node].parent;
	return node;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct ip_calltree *tree = context;
	uint32_t above = depth ? frame[-1].tag : TAG_OUTSIDE, node;

	frame->tag = TAG_OUTSIDE;
	if (tree->skip || tree->failed)
		return;
	if (above == TAG_OUTSIDE && tree->options.roots && !tree->options.roots[frame->function])
		return;
	above = above == TAG_OUTSIDE ? 0 : above & ~TAG_INNER;
	if (tree->options.fold && frame->flags & IP_FRAME_INNER) {
		node = find_above(tree, above, frame->function);
		if (!node)
			node = ip_calltree_child(tree, above, frame->function);
	} else {
		node = ip_calltree_child(tree, above, frame->function);
	}
	if (node == IP_NO_NODE)
		tree->failed = true;
	else
		frame->tag = node | (tree->nodes[node].open++ ? TAG_INNER : 0);
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_calltree *tree = context;

	if (frame->tag != TAG_OUTSIDE)
		tree->nodes[frame->tag & ~TAG_INNER].open--;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_calltree *tree = context;

	if (frame->tag != TAG_OUTSIDE)
		tree->nodes[frame->tag & ~TAG_INNER].open++;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_calltree *tree = context;
	struct ip_call_node *node;
	uint64_t ticks = ip_frame_ticks(frame, end);

	if (frame->tag == TAG_OUTSIDE)
		return;
	node = &tree->nodes[frame->tag & ~TAG_INNER];
	node->open -= how != IP_END_UNWOUND; /* else it was left before */
	node->calls++;
	node->self += frame->self;
	if (!(frame->tag & TAG_INNER))
		node->total += ticks;
	if (!(frame->flags & IP_FRAME_INNER))
		node->outer += ticks;
	if (!node->parent && !(frame->tag & TAG_INNER))
		tree->ticks += ticks;
}

static void on_run(void *context, const struct ip_run *run)
{
	struct ip_calltree *tree = context;

	tree->skip = tree->options.tid && tree->options.tid != run->tid;
}

int ip_calltree_collect(struct ip_trace_reader *trace, const struct ip_calltree_options *options,
			struct ip_calltree **ret)
{
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct ip_calltree *tree = ip_calltree_create();
	struct ip_trace_visitor visitor = {.ops = &ops, .context = tree, .run = on_run};
	int done;

	if (!tree)
		return -1;
	tree->options = *options;
	done = ip_trace_reader_visit(trace, &visitor, &tree->events);
	if (done < 0 || tree->failed) {
		ip_calltree_destroy(tree);
		return -1;
	}
	*ret = tree;
	return 0;
}
