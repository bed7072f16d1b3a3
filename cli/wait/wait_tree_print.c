/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints wait profiles as trees.
 */
#include "cli/wait/wait_tree_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/wait/wait_tree.h"
#include "cli/trace_args.h"
#include "cli/wait/wait_load.h"
#include "common/error.h"
#include "common/json.h"
#include "common/print.h"
#include "common/units.h"

#define INDENT_MOST 200u /* columns: a line stays one */

/* A node that is to be shown. */
struct item {
	uint32_t node;
	size_t level;
};

struct view {
	const struct cli_wait_options *options;
	struct cli_wait_trace t;
	struct ip_wait_profile *profile;
	struct ip_wait_tree *tree;
	struct item *stack; /* those that come next, the last one first */
	size_t n;
};

static uint64_t waited(const struct view *v, uint32_t node)
{
	return ip_wait_parts_waited(&v->tree->total[node]);
}

/* For qsort(), which passes no context. */
static const struct view *sorted;

/* What waited longest is taken from the stack first. */
static int compare(const void *left, const void *right)
{
	const struct item *a = left, *b = right;
	const uint64_t x = waited(sorted, a->node), y = waited(sorted, b->node);

	if (x != y)
		return x < y ? -1 : 1;
	return a->node < b->node ? 1 : -1;
}

static void push_children(struct view *v, uint32_t node, size_t level)
{
	const struct ip_call_node *nodes = v->tree->paths->nodes;
	const double least =
		v->options->min_percent / 100 * (double)ip_wait_parts_waited(v->tree->total);
	const size_t first = v->n;

	if (level >= v->options->filter.depth)
		return;
	for (uint32_t i = nodes[node].first_child; i != IP_NO_NODE; i = nodes[i].next_sibling) {
		if ((double)waited(v, i) < least)
			continue;
		/* the stack grows and shrinks: room for all nodes was made */
		v->stack[v->n++] = (struct item){i, level};
	}
	sorted = v;
	if (v->n > first)
		qsort(v->stack + first, v->n - first, sizeof(*v->stack), compare);
}

static const struct ip_wait_sum *waits_of(const struct view *v, uint32_t node, size_t *ret_n)
{
	return ip_wait_sums_of(v->tree->waits, v->tree->nwaits, node, ret_n);
}

static uint64_t blocked(const struct ip_wait_parts *p)
{
	return p->elapsed - p->cpu - p->runqueue - p->unknown;
}

static bool has_idle(const struct view *v)
{
	return v->tree->total[0].idle;
}

static void print_node(struct view *v, const struct item *item)
{
	const struct ip_wait_parts *p = &v->tree->total[item->node];
	const unsigned indent = 2 * item->level < INDENT_MOST ? 2 * item->level : INDENT_MOST;
	const struct ip_wait_sum *waits;
	char t[32];
	size_t n;

	cli_wait_print_parts(&v->t, v->tree->calls[item->node], p, has_idle(v));
	ip_print(stdout, "%*s%s\n", indent, "",
		 ip_names_shown(v->t.names, v->tree->paths->nodes[item->node].function));
	waits = waits_of(v, item->node, &n);
	for (size_t k = 0; k < n && k < v->options->objects; k++) {
		const struct ip_wait_object *o = &v->profile->objects[waits[k].object];
		const uint64_t ticks = waits[k].ticks - waits[k].idle,
			       count = waits[k].count - waits[k].idle_count;

		if (!ticks) /* it was idle */
			continue;
		ip_print(stdout, "%43s %10s %*s  %*s| %s %s", "",
			 ip_format_ns(cli_wait_ns(&v->t, ticks), t), has_idle(v) ? 21 : 10, "",
			 indent, "", ip_wait_kind_name(o->kind),
			 ip_object_name(v->t.object_names, o));
		cli_wait_print_times(count);
		ip_print(stdout, "\n");
	}
	if (v->options->objects)
		cli_wait_print_idle(&v->t, v->profile, waits, n, indent, "| ");
}

static void json_node(struct view *v, struct ip_json *j, const struct item *item)
{
	const struct ip_call_node *node = &v->tree->paths->nodes[item->node];
	const struct ip_wait_parts *p = &v->tree->total[item->node];
	const struct ip_wait_sum *waits;
	size_t n;

	ip_json_object(j, NULL);
	ip_json_uint(j, "id", item->node);
	ip_json_uint(j, "parent", node->parent); /* 0: none */
	ip_json_string(j, "function", ip_names_get(v->t.names, node->function));
	ip_json_string(j, "module",
		       ip_recording_module_name(v->t.trace->session,
						&v->t.trace->session->functions[node->function]));
	ip_json_uint(j, "calls", v->tree->calls[item->node]);
	ip_json_uint(j, "elapsed_ns", cli_wait_ns(&v->t, p->elapsed) + 0.5);
	ip_json_uint(j, "cpu_ns", cli_wait_ns(&v->t, p->cpu) + 0.5);
	ip_json_uint(j, "runqueue_ns", cli_wait_ns(&v->t, p->runqueue) + 0.5);
	ip_json_uint(j, "blocked_ns", cli_wait_ns(&v->t, blocked(p)) + 0.5);
	ip_json_uint(j, "unknown_ns", cli_wait_ns(&v->t, p->unknown) + 0.5);
	ip_json_uint(j, "idle_ns", cli_wait_ns(&v->t, p->idle) + 0.5);
	ip_json_array(j, "self_blocked"); /* not of the calls inside */
	waits = waits_of(v, item->node, &n);
	for (size_t k = 0; k < n && k < v->options->objects; k++) {
		const struct ip_wait_object *o = &v->profile->objects[waits[k].object];

		ip_json_object(j, NULL);
		ip_json_string(j, "kind", ip_wait_kind_name(o->kind));
		ip_json_string(j, "object", ip_object_name(v->t.object_names, o));
		ip_json_uint(j, "ns", cli_wait_ns(&v->t, waits[k].ticks) + 0.5);
		ip_json_uint(j, "count", waits[k].count);
		ip_json_uint(j, "idle_ns", cli_wait_ns(&v->t, waits[k].idle) + 0.5);
		ip_json_end_object(j);
	}
	ip_json_end_array(j);
	ip_json_end_object(j);
}

/* A recursion of ours would be as deep as the program's calls. */
static int show(struct view *v, struct ip_json *j)
{
	v->stack = calloc(v->tree->paths->n, sizeof(*v->stack));
	if (!v->stack)
		return ip_error("out of memory");
	push_children(v, 0, 0);
	while (v->n) {
		const struct item item = v->stack[--v->n];

		if (j)
			json_node(v, j, &item);
		else
			print_node(v, &item);
		push_children(v, item.node, item.level + 1);
	}
	return 0;
}

static int print_json(struct view *v)
{
	struct ip_json j;
	int ret;

	ip_json_init(&j, stdout);
	ip_json_object(&j, NULL);
	ip_json_uint(&j, "events", v->profile->events);
	ip_json_uint(&j, "lost", v->t.trace->lost);
	ip_json_uint(&j, "kernel_events", v->t.states->events);
	ip_json_uint(&j, "kernel_lost", v->t.states->lost);
	ip_json_uint(&j, "unknown_threads", v->profile->unknown_threads);
	ip_json_uint(&j, "idle_ns", cli_wait_ns(&v->t, v->tree->total[0].idle) + 0.5);
	ip_json_array(&j, "nodes");
	ret = show(v, &j);
	ip_json_end_array(&j);
	ip_json_end_object(&j);
	return ret;
}

static int print_text(struct view *v)
{
	cli_wait_print_head(&v->t, v->profile->events, v->tree->total[0].idle);
	if (v->tree->paths->n == 1) {
		ip_print(stdout, "No call of it was recorded.\n");
		return 0;
	}
	cli_wait_print_columns("CALLS", "FUNCTION", has_idle(v));
	return show(v, NULL);
}

int cli_wait_tree(const char *dir, const struct cli_wait_options *o)
{
	struct view v = {.options = o};
	int ret = cli_wait_load(dir, o, &v.t);

	if (ret == 0)
		ret = cli_wait_find_idle(&v.t);
	if (ret == 0) {
		v.profile = ip_wait_profile_observe(v.t.trace, v.t.states, &v.t.descriptors,
						    o->filter.tid, cli_wait_idle(&v.t), NULL);
		v.tree = v.profile ? ip_wait_tree_make(v.profile,
						       o->filter.functions ? v.t.selected : NULL)
				   : NULL;
		ret = v.tree ? 0 : -1;
	}
	if (ret == 0) {
		cli_reader_warn(v.t.trace);
		ret = o->json ? print_json(&v) : print_text(&v);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	free(v.stack);
	ip_wait_tree_destroy(v.tree);
	ip_wait_profile_destroy(v.profile);
	cli_wait_clear(&v.t);
	return ret;
}
