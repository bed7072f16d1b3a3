/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the tree from frames. The tag of each open frame is its node. So frames that are left
 * and come back, or end late, are counted where they were called.
 *
 * A trace of 50 million events a second leaves 40 ns for a call, and a tree of many call paths
 * does not fit into a core's cache. So a call reads only one cache line that may be missing from
 * the cache, near[its caller's node]. Its end reads only one other such line, sums[its node],
 * which was prefetched when the call began. Other memory is needed rarely. A node with more than
 * WAYS children has them in a hash table (near has those called last). How often a node is open
 * is 0 or 1, unless frames of coroutines come back on top of others, or call paths are folded.
 */
#include "analysis/profile/calltree.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/callstack/frames_words.h"
#include "analysis/callstack/trace_parts.h"
#include "common/array.h"
#include "common/cleanup.h"
#include "common/error.h"

/* Values in a tag. OUTSIDE: the frame does not belong to the tree (it lies above where call
 * paths begin, or its thread is not wanted). INNER: it lies within another frame of its node. */
#define TAG_OUTSIDE UINT32_MAX
#define TAG_INNER   (1u << 31)
/* the frame is neither OUTSIDE nor INNER, and a call path begins at its node */
#define TAG_FIRST (1u << 30)
#define TAG_NODE  (TAG_FIRST - 1)
#define NODES_MAX (TAG_NODE - 1)

#define WAYS 4u

/* Trees with more nodes are not copied: 100 bytes each. */
#define COPY_MAX (1u << 20)

/* Children of one node. Where the node has at most WAYS children, these are all. Else they are
 * the children that were found last, and the hash table has all. */
struct ip_call_near {
	uint32_t function[WAYS]; /* IP_NO_NODE: free */
	uint32_t child[WAYS];
} __attribute__((aligned(32)));

/* Sums of a node; a cache line holds two. nested: the part of total of frames that lie in
 * another frame of the same function, anywhere above. */
struct ip_call_sum {
	uint64_t calls, self, total, nested;
} __attribute__((aligned(32)));

static size_t hash(uint32_t parent, uint32_t function)
{
	uint64_t h = ((uint64_t)parent << 32 | function) * 0x9e3779b97f4a7c15ull;

	return h >> 20;
}

/* Returns the slot of the table that holds the child, or the free slot where it belongs. */
static size_t slot_of(const struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	size_t at = hash(parent, function) & (tree->index_size - 1);

	for (; tree->index[at]; at = (at + 1) & (tree->index_size - 1)) {
		const struct ip_call_node *node = &tree->nodes[tree->index[at]];

		if (node->parent == parent && node->function == function)
			break;
	}
	return at;
}

static int put_into_table(struct ip_calltree *tree, uint32_t node)
{
	uint32_t *old = tree->index;
	size_t size = tree->index_size;

	if (2 * (tree->index_n + 1) > size) {
		tree->index_size = size ? 2 * size : 1024;
		tree->index = calloc(tree->index_size, sizeof(*tree->index));
		if (!tree->index) {
			tree->index = old;
			tree->index_size = size;
			return ip_error("out of memory");
		}
		for (size_t i = 0; i < size; i++)
			if (old[i])
				tree->index[slot_of(tree, tree->nodes[old[i]].parent,
						    tree->nodes[old[i]].function)] = old[i];
		free(old);
	}
	tree->index[slot_of(tree, tree->nodes[node].parent, tree->nodes[node].function)] = node;
	tree->index_n++;
	return 0;
}

/* Puts children into the table when a node gets child number WAYS + 1 or a later one. */
static int put_all_into_table(struct ip_calltree *tree, uint32_t parent, uint32_t child)
{
	const struct ip_call_near *near = &tree->near[parent];
	bool first = !tree->index_size || !tree->index[slot_of(tree, parent, near->function[0])];

	for (unsigned i = 0; first && i < WAYS; i++)
		if (put_into_table(tree, near->child[i]) < 0)
			return -1;
	return put_into_table(tree, child);
}

/* Moves an array of n elements to one that has room for more elements and is aligned to their
 * size. Returns NULL with an error. */
static void *move_aligned(void *array, size_t n, size_t room, size_t size)
{
	void *moved = aligned_alloc(size, room * size);

	if (!moved) {
		ip_error("out of memory");
		return NULL;
	}
	if (n)
		memcpy(moved, array, n * size);
	free(array);
	return moved;
}

/* Makes room for one more node. */
static int reserve(struct ip_calltree *tree)
{
	size_t room = tree->room ? 2 * tree->room : 256;
	struct ip_call_near *near;
	struct ip_call_node *nodes;

	if (tree->n < tree->room)
		return 0;
	nodes = tree->n < NODES_MAX ? reallocarray(tree->nodes, room, sizeof(*nodes)) : NULL;
	if (!nodes)
		return ip_error("out of memory");
	tree->nodes = nodes;
	near = move_aligned(tree->near, tree->n, room, sizeof(*near));
	if (!near)
		return -1;
	tree->near = near;
	if (tree->sums) {
		struct ip_call_sum *sums = move_aligned(tree->sums, tree->n, room, sizeof(*sums));

		if (!sums)
			return -1;
		tree->sums = sums;
	}
	tree->room = room;
	return 0;
}

static uint32_t add_node(struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	if (reserve(tree) < 0)
		return IP_NO_NODE;
	tree->nodes[tree->n] = (struct ip_call_node){.function = function,
						     .parent = parent,
						     .first_child = IP_NO_NODE,
						     .next_sibling = IP_NO_NODE};
	memset(&tree->near[tree->n], 0xff, sizeof(*tree->near));
	if (tree->sums)
		tree->sums[tree->n] = (struct ip_call_sum){0};
	if (parent != IP_NO_NODE) {
		tree->nodes[tree->n].next_sibling = tree->nodes[parent].first_child;
		tree->nodes[parent].first_child = tree->n;
	}
	return tree->n++;
}

struct ip_calltree *ip_calltree_create(void)
{
	struct ip_calltree *tree = calloc(1, sizeof(*tree));

	if (!tree || add_node(tree, IP_NO_NODE, IP_NO_NODE) == IP_NO_NODE) {
		ip_calltree_destroy(tree);
		ip_error("out of memory");
		return NULL;
	}
	return tree;
}

void ip_calltree_destroy(struct ip_calltree *tree)
{
	if (!tree)
		return;
	free(tree->nodes);
	free(tree->near);
	free(tree->sums);
	free(tree->index);
	free(tree->open);
	free(tree->until_tail);
	free(tree);
}

/* Returns the child where near does not have it. */
static uint32_t far_child(struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	struct ip_call_near *near;
	uint32_t child = tree->index_size ? tree->index[slot_of(tree, parent, function)] : 0;
	unsigned way = 0;

	if (!child) {
		child = add_node(tree, parent, function);
		if (child == IP_NO_NODE)
			return IP_NO_NODE;
		near = &tree->near[parent];
		while (way < WAYS && near->function[way] != IP_NO_NODE)
			way++;
		if (way == WAYS && put_all_into_table(tree, parent, child) < 0)
			return IP_NO_NODE;
	} else {
		way = WAYS;
	}
	near = &tree->near[parent];
	way = way == WAYS ? function % WAYS : way;
	near->function[way] = function;
	near->child[way] = child;
	return child;
}

/* Has no branch for each of the WAYS: which of them matches cannot be predicted. */
static inline uint32_t child_of(struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	const struct ip_call_near *near = &tree->near[parent];
	uint32_t child = 0;

	for (unsigned i = 0; i < WAYS; i++)
		child |= near->child[i] & -(uint32_t)(near->function[i] == function);
	return __builtin_expect(!child, 0) ? far_child(tree, parent, function) : child;
}

uint32_t ip_calltree_child(struct ip_calltree *tree, uint32_t parent, uint32_t function)
{
	return child_of(tree, parent, function);
}

/* Returns the node of the function among node and its ancestors; 0: there is none. */
static uint32_t find_above(const struct ip_calltree *tree, uint32_t node, uint32_t function)
{
	while (node && tree->nodes[node].function != function)
		node = tree->nodes[node].parent;
	return node;
}

/* Begins to count the open frames of each node. The frames that are open already lie below
 * frame. */
static bool begin_counting(struct ip_calltree *tree, const struct ip_frame *frame, size_t depth)
{
	size_t n = tree->room > tree->nopen ? tree->room : tree->nopen;
	uint32_t *open = n > tree->nopen ? reallocarray(tree->open, n, sizeof(*open)) : tree->open;

	if (!open) {
		tree->failed = true;
		ip_error("out of memory");
		return false;
	}
	memset(open + tree->nopen, 0, (n - tree->nopen) * sizeof(*open));
	tree->open = open;
	tree->nopen = n;
	for (size_t i = 1; !tree->counting && i <= depth; i++)
		if (frame[-(ssize_t)i].tag != TAG_OUTSIDE)
			open[frame[-(ssize_t)i].tag & TAG_NODE]++;
	tree->counting = true;
	return true;
}

/* Makes the node of the thread, which has the first call of a run. */
static bool begin_thread(struct ip_calltree *tree)
{
	tree->base = child_of(tree, 0, tree->thread);
	if (tree->base == IP_NO_NODE)
		tree->skip = tree->failed = true;
	return tree->base != IP_NO_NODE;
}

static void on_opened(void *context, struct ip_frame *frame, size_t depth)
{
	struct ip_calltree *tree = context;
	uint32_t above = depth ? frame[-1].tag : TAG_OUTSIDE, node;

	frame->tag = TAG_OUTSIDE;
	if (__builtin_expect(tree->skip, 0))
		return;
	if (above == TAG_OUTSIDE) {
		if (tree->options.roots && !tree->options.roots[frame->function])
			return;
		if (__builtin_expect(tree->base == IP_NO_NODE, 0) && !begin_thread(tree))
			return;
		above = tree->base;
	}
	above &= TAG_NODE;
	if (tree->options.fold && frame->flags & IP_FRAME_INNER) {
		node = find_above(tree, above, frame->function);
		if (!node)
			node = child_of(tree, above, frame->function);
		else
			above = tree->nodes[node].parent;
	} else {
		node = child_of(tree, above, frame->function);
	}
	if (__builtin_expect(node == IP_NO_NODE, 0)) {
		tree->skip = tree->failed = true;
		return;
	}
	frame->tag = node | (above == tree->base ? TAG_FIRST : 0);
	__builtin_prefetch(&tree->sums[node], 1);
	__builtin_prefetch(&tree->near[node]);
	if (!tree->counting || (node >= tree->nopen && !begin_counting(tree, frame, depth)))
		return;
	frame->tag |= tree->open[node]++ ? TAG_INNER : 0;
}

static void on_left(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_calltree *tree = context;

	if (tree->counting && frame->tag != TAG_OUTSIDE)
		tree->open[frame->tag & TAG_NODE]--;
}

static void on_resumed(void *context, const struct ip_frame *frame, size_t depth, uint64_t ts)
{
	struct ip_calltree *tree = context;

	if (frame->tag == TAG_OUTSIDE || (!tree->counting && !begin_counting(tree, frame, depth)))
		return;
	tree->open[frame->tag & TAG_NODE]++;
}

static void on_closed(void *context, const struct ip_frame *frame, size_t depth, uint64_t end,
		      enum ip_frame_end how)
{
	struct ip_calltree *tree = context;
	uint32_t tag = frame->tag;
	struct ip_call_sum *sum;
	uint64_t ticks = ip_frame_ticks(frame, end);

	if (tag == TAG_OUTSIDE)
		return;
	sum = &tree->sums[tag & TAG_NODE];
	/* otherwise the frame was left before */
	if (__builtin_expect(tree->counting, 0) && how != IP_END_UNWOUND)
		tree->open[tag & TAG_NODE]--;
	if (__builtin_expect(frame->flags & IP_FRAME_TAIL, 0))
		tree->until_tail[frame->function] = true;
	sum->calls += !(frame->flags & IP_FRAME_EARLIER);
	sum->self += frame->self;
	/* nested may be below 0 for a while: only total - nested is used. */
	if (__builtin_expect(tag & TAG_INNER, 0))
		sum->nested -= frame->flags & IP_FRAME_INNER ? 0 : ticks;
	else
		sum->total += ticks;
	if (frame->flags & IP_FRAME_INNER && !(tag & TAG_INNER))
		sum->nested += ticks;
	if ((tag & (TAG_INNER | TAG_FIRST)) == TAG_FIRST)
		tree->ticks += ticks;
}

/* The tag of a frame whose call path begins or goes on in the tree; ip_frames_tag. */
static inline __attribute__((always_inline)) uint32_t tag_of(void *context, uint32_t above,
							     uint32_t function, bool is_exit)
{
	struct ip_calltree *tree = context;
	uint32_t node = above == TAG_OUTSIDE ? tree->base : above & TAG_NODE, child = 0;
	const struct ip_call_near *near = &tree->near[node];

	for (unsigned i = 0; i < WAYS; i++)
		child |= near->child[i] & -(uint32_t)(near->function[i] == function);
	if (__builtin_expect(!child & !is_exit, 0)) {
		child = far_child(tree, node, function);
		if (child == IP_NO_NODE)
			return UINT32_MAX;
	}
	__builtin_prefetch(&tree->sums[child], 1);
	__builtin_prefetch(&tree->near[child]);
	return child | (node == tree->base ? TAG_FIRST : 0);
}

static size_t take_words(void *context, struct ip_frames *frames,
			 const struct ip_stream_words *words, uint64_t *ret_ts, uint64_t *ret_sp)
{
	struct ip_frames_call calls[IP_FRAMES_WORDS];
	struct ip_calltree *tree = context;
	size_t n, taken;

	/* where frames are counted, or may lie outside, the machine tells of each of them */
	if (tree->counting || tree->options.roots || tree->skip || tree->base == IP_NO_NODE)
		return 0;
	taken = ip_frames_take_words(frames, words, true, tag_of, tree, calls, &n, ret_ts, ret_sp);
	for (size_t i = 0; i < n; i++) {
		const struct ip_frames_call *c = &calls[i];
		struct ip_call_sum *sum = &tree->sums[c->tag & TAG_NODE];

		if (__builtin_expect(c->flags & IP_FRAME_TAIL, 0))
			tree->until_tail[c->function] = true;
		sum->calls += !(c->flags & IP_FRAME_EARLIER);
		sum->self += c->self;
		sum->total += c->ticks;
		sum->nested += c->ticks & -(uint64_t)(c->flags & IP_FRAME_INNER);
		tree->ticks += c->tag & TAG_FIRST ? c->ticks : 0;
	}
	return taken;
}

static void on_run(void *context, const struct ip_thread_packets *run)
{
	struct ip_calltree *tree = context;
	const struct ip_tree_threads *threads = tree->options.threads;

	tree->skip = tree->failed || (tree->options.tid && tree->options.tid != run->tid);
	if (tree->skip || !threads)
		return;
	tree->thread = threads->first + threads->of_run[run - tree->runs];
	tree->base = IP_NO_NODE;
}

/* Returns how many numbers nodes may have. */
static size_t count_numbers(const struct ip_calltree_options *options,
			    const struct ip_trace_reader *trace)
{
	return trace->session->nfunctions + (options->threads ? options->threads->n : 0);
}

static void hand_over(struct ip_calltree *tree)
{
	for (size_t i = 0; i < tree->n; i++) {
		const struct ip_call_sum *sum = &tree->sums[i];

		tree->nodes[i].calls = sum->calls;
		tree->nodes[i].self = sum->self;
		tree->nodes[i].total = sum->total;
		tree->nodes[i].outer = sum->total - sum->nested;
	}
	free(tree->sums);
	tree->sums = NULL;
	for (size_t i = 1; tree->options.threads && i < tree->n; i++) {
		struct ip_call_node *above = &tree->nodes[tree->nodes[i].parent];

		if (!ip_tree_thread_of(tree->options.threads, above->function))
			continue;
		above->total += tree->nodes[i].total;
		above->outer += tree->nodes[i].total;
	}
}

/* Returns how many bytes a tree takes, about. How many call paths there are is not known before:
 * taken are as many as there are functions, which is the least where each is called. */
static size_t size_of_tree(size_t nnumbers)
{
	const struct ip_calltree *tree;

	return sizeof(*tree) + nnumbers * (sizeof(*tree->nodes) + sizeof(*tree->near) +
					   sizeof(*tree->sums) + sizeof(*tree->until_tail));
}

/* What trees of the parts of a trace are made of. */
struct collecting {
	struct ip_trace_reader *trace;
	const struct ip_calltree_options *options;
};

static void destroy_part(void *part)
{
	ip_calltree_destroy(part);
}

static void *create_part(void *context)
{
	const struct collecting *c = context;
	struct ip_calltree *tree = ip_calltree_create();

	if (!tree)
		return NULL;
	tree->options = *c->options;
	tree->counting = tree->options.fold;
	tree->sums = move_aligned(NULL, 0, tree->room, sizeof(*tree->sums));
	tree->runs = c->trace->runs;
	tree->nnumbers = count_numbers(c->options, c->trace);
	tree->until_tail = calloc(tree->nnumbers, sizeof(*tree->until_tail));
	if (tree->sums)
		tree->sums[0] = (struct ip_call_sum){0};
	if (tree->sums && tree->until_tail)
		return tree;
	ip_error("out of memory");
	ip_calltree_destroy(tree);
	return NULL;
}

static int end_part(void *part)
{
	return ((struct ip_calltree *)part)->failed ? -1 : 0;
}

/* Nodes are numbered in the order in which their call paths occur: those of the second part that
 * are new come behind those of the first one. */
static int merge_part(void *first, void *part)
{
	struct ip_calltree *to = first, *tree = part;
	_cleanup_free_ uint32_t *nodes = calloc(tree->n, sizeof(*nodes));

	if (!nodes)
		return ip_error("out of memory");
	for (uint32_t i = 1; i < tree->n; i++) {
		const struct ip_call_sum *sum = &tree->sums[i];
		struct ip_call_sum *all;

		nodes[i] = child_of(to, nodes[tree->nodes[i].parent], tree->nodes[i].function);
		if (nodes[i] == IP_NO_NODE)
			return -1;
		all = &to->sums[nodes[i]];
		all->calls += sum->calls;
		all->self += sum->self;
		all->total += sum->total;
		all->nested += sum->nested;
	}
	for (size_t i = 0; i < tree->nnumbers; i++)
		to->until_tail[i] |= tree->until_tail[i];
	to->ticks += tree->ticks;
	return 0;
}

/* Copies n elements of an array that has room for more, aligned to their size. */
static void *copy_aligned(const void *array, size_t n, size_t room, size_t size)
{
	void *copied = aligned_alloc(size, room * size);

	if (copied)
		memcpy(copied, array, n * size);
	return copied;
}

/* Copies n elements of an array that has size n. */
static void *copy_whole(const void *array, size_t n, size_t size)
{
	void *copied = reallocarray(NULL, n ? n : 1, size);

	if (copied && n)
		memcpy(copied, array, n * size);
	return copied;
}

static void *copy_part(void *part)
{
	const struct ip_calltree *tree = part;
	struct ip_calltree *copy = tree->room <= COPY_MAX ? malloc(sizeof(*copy)) : NULL;

	if (!copy)
		return NULL;
	*copy = *tree;
	copy->nodes = reallocarray(NULL, tree->room, sizeof(*copy->nodes));
	if (copy->nodes)
		memcpy(copy->nodes, tree->nodes, tree->n * sizeof(*copy->nodes));
	copy->near = copy_aligned(tree->near, tree->n, tree->room, sizeof(*copy->near));
	copy->sums = copy_aligned(tree->sums, tree->n, tree->room, sizeof(*copy->sums));
	copy->index = copy_whole(tree->index, tree->index_size, sizeof(*copy->index));
	copy->open = copy_whole(tree->open, tree->nopen, sizeof(*copy->open));
	copy->until_tail = copy_whole(tree->until_tail, tree->nnumbers, sizeof(*copy->until_tail));
	if (copy->nodes && copy->near && copy->sums && copy->index && copy->open &&
	    copy->until_tail)
		return copy;
	ip_calltree_destroy(copy);
	return NULL;
}

static void complete(void *part, uint64_t events)
{
	((struct ip_calltree *)part)->events = events;
	hand_over(part);
}

static bool has_all(const struct ip_recording *session, const bool *functions)
{
	for (size_t i = 0; i < session->nfunctions; i++)
		if (!functions[i])
			return false;
	return true;
}

int ip_calltree_collect(struct ip_trace_reader *trace, const struct ip_calltree_options *wanted,
			struct ip_calltree **ret)
{
	struct ip_calltree_options options = *wanted;
	static const struct ip_frames_ops ops = {
		.opened = on_opened, .left = on_left, .resumed = on_resumed, .closed = on_closed};
	struct collecting c = {trace, &options};
	const struct ip_trace_parts parts = {
		.create = create_part,
		.end = end_part,
		.merge = merge_part,
		.destroy = destroy_part,
		.copy = copy_part,
		.complete = complete,
		.visitor = {.ops = &ops, .run = on_run, .words = take_words},
		.context = &c,
		.size = size_of_tree(count_numbers(&options, trace))};
	uint64_t events;
	void *part;

	/* where call paths begin anywhere, take_words() need not ask */
	if (options.roots && has_all(trace->session, options.roots))
		options.roots = NULL;
	if (ip_trace_reader_visit_parts(trace, &parts, &part, &events) < 0)
		return -1;
	*ret = part;
	return 0;
}
