/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the calls that are compared.
 */
#include "cli/darc/compare/compare_calls.h"

#include <stdlib.h>
#include <string.h>

#include "cli/filter/filter_check.h"
#include "cli/trace_args.h"
#include "common/error.h"

/* Calls of which the slowest, and that of the median, are chosen. */
#define LOOKED_AT 10000u

static int by_ticks(const void *left, const void *right)
{
	const struct ip_darc_operation *a = *(const struct ip_darc_operation *const *)left,
				       *b = *(const struct ip_darc_operation *const *)right;

	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	return a->start != b->start ? (a->start < b->start ? -1 : 1) : 0;
}

static int by_difference(const void *left, const void *right)
{
	const struct cli_compare_node *a = left, *b = right;
	const uint64_t x = a->slow > a->usual ? a->slow - a->usual : a->usual - a->slow,
		       y = b->slow > b->usual ? b->slow - b->usual : b->usual - b->slow;

	return x != y ? (x > y ? -1 : 1) : a->node < b->node ? -1 : a->node > b->node;
}

struct cli_compare_node *cli_compare_nodes(const struct cli_compare_calls *c,
					   const struct ip_darc_operation *slow, size_t *ret_n)
{
	const size_t all = c->trace->search.ftree.n;
	struct cli_compare_node *nodes = calloc(all, sizeof(*nodes));
	size_t n = 0;

	if (!nodes) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < slow->nown; i++) {
		nodes[slow->own[i].node].slow = slow->own[i].ticks;
		nodes[slow->own[i].node].slow_calls = slow->own[i].calls;
	}
	for (size_t i = 0; i < c->usual->nown; i++) {
		nodes[c->usual->own[i].node].usual = c->usual->own[i].ticks;
		nodes[c->usual->own[i].node].usual_calls = c->usual->own[i].calls;
	}
	for (size_t i = 0; i < all; i++) {
		nodes[i].node = i;
		if (nodes[i].slow_calls || nodes[i].usual_calls)
			nodes[n++] = nodes[i];
	}
	qsort(nodes, n, sizeof(*nodes), by_difference);
	*ret_n = n;
	return nodes;
}

struct cli_compare_values cli_compare_values_of(const struct cli_compare_calls *c, size_t number,
						uint32_t node)
{
	return (struct cli_compare_values){.session = c->trace->trace->session,
					   .names = c->trace->names,
					   .slow = ip_node_values_find(&c->values[number], node),
					   .usual =
						   ip_node_values_find(&c->values[c->nslow], node)};
}

/* The operations of a range, the slowest first. The caller frees the array. */
static const struct ip_darc_operation **sorted(const struct ip_darc_range *r)
{
	const struct ip_darc_operation **items = calloc(r->operations.n + 1, sizeof(*items));

	if (!items) {
		ip_error("out of memory");
		return NULL;
	}
	for (size_t i = 0; i < r->operations.n; i++)
		items[i] = &r->operations.items[i];
	qsort(items, r->operations.n, sizeof(*items), by_ticks);
	return items;
}

/* Reads calls that are as slow as the slowest ones, and some that are about as long as the median.
 */
static int read_calls(struct cli_darc_trace *t, const struct cli_compare_options *o,
		      uint32_t function)
{
	const struct ip_darc_read_options read = {.function = function,
						  .tid = o->filter->tid,
						  .depth = o->depth,
						  .own = true,
						  .plain = true};
	struct ip_darc_search *s = &t->search;
	uint64_t median, calls;

	s->session = t->trace->session;
	if (ip_darc_latencies_read(t->trace, function, o->filter->tid, 0, &s->latencies) < 0)
		return -1;
	calls = s->latencies.bins.count;
	if (calls < 2)
		return ip_error("%s: %lu call%s of the function: there is nothing to compare",
				t->trace->dir, calls, calls == 1 ? "" : "s");
	median = ip_darc_latencies_percentile(&s->latencies, 0.5);
	s->ranges[0] = (struct ip_darc_range){
		.from_ns = ip_darc_latencies_percentile(
			&s->latencies,
			calls > o->slowest ? 1 - (double)o->slowest / (double)calls : 0),
		.to_ns = UINT64_MAX,
		.most = LOOKED_AT};
	/* calls that are all alike: the usual one is among the slowest */
	s->ranges[1] = (struct ip_darc_range){
		.from_ns = median, .to_ns = s->ranges[0].from_ns, .most = LOOKED_AT};
	if (s->ranges[1].to_ns <= median)
		s->ranges[1] = (struct ip_darc_range){0};
	if (ip_ftree_begin(&s->ftree, function) < 0)
		return -1;
	return ip_darc_operations_read(t->trace, &read, &s->ftree, s->ranges, 2, &s->seen);
}

static int show(struct cli_compare_calls *c)
{
	const size_t n = c->nslow + 1;
	const struct ip_darc_operation **operations = calloc(n, sizeof(*operations));
	struct ip_node_values *values = calloc(n, sizeof(*values));
	int ret = operations && values ? 0 : ip_error("out of memory");

	if (ret == 0) {
		memcpy(operations, c->slow, c->nslow * sizeof(*operations));
		operations[c->nslow] = c->usual;
		c->values = values;
		ret = ip_node_values_read(c->trace->trace,
					  (struct ip_ftree *)&c->trace->search.ftree,
					  c->options->depth, operations, n, values);
	}
	if (ret == 0)
		ret = c->options->json ? cli_compare_json(c) : cli_compare_text(c);
	if (ret == 0 && c->options->html)
		ret = cli_compare_html(c, c->options->html);
	ip_node_values_clear(values, n);
	free(values);
	free(operations);
	return ret;
}

static int compare(struct cli_darc_trace *t, const struct cli_compare_options *o)
{
	struct ip_darc_range *r = t->search.ranges;
	const struct ip_darc_operation **usual = sorted(&r[1]);
	struct cli_compare_calls c = {.options = o, .trace = t, .slow = sorted(&r[0])};
	int ret = usual && c.slow ? 0 : -1;

	if (ret == 0 && !r[0].operations.n)
		ret = ip_error("no call of the function has ended in the recording");
	if (ret == 0) {
		c.nslow = r[0].operations.n < o->slowest ? r[0].operations.n : o->slowest;
		/* the shortest of those from the median on */
		c.usual = r[1].operations.n ? usual[r[1].operations.n - 1]
					    : c.slow[r[0].operations.n - 1];
		if (c.usual == c.slow[c.nslow - 1] && c.nslow > 1)
			c.nslow--;
		ret = show(&c);
	}
	free(usual);
	free(c.slow);
	return ret;
}

int cli_compare_calls(const char *dir, const struct cli_compare_options *o)
{
	struct cli_darc_trace t;
	uint32_t function;
	int ret = cli_darc_open(dir, o->filter, true, &t);

	if (ret == 0)
		ret = cli_darc_find_function(&t, "--of", o->filter->functions, &function);
	if (ret == 0)
		ret = cli_filter_check(t.trace, o->filter);
	if (ret == 0)
		ret = read_calls(&t, o, function);
	if (ret == 0) {
		cli_reader_warn(t.trace);
		ret = compare(&t, o);
	}
	if (ret == 0)
		ret = cli_reader_check_stdout();
	cli_darc_clear(&t);
	return ret;
}
