/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers the values of one operation of the trace after the other, as operation_calls.c its calls.
 */
#include "analysis/darc/values/node_values.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/darc/read_operations.h"
#include "common/array.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

struct reader {
	const struct ip_darc_operation *const *operations;
	struct ip_node_values *ret;
	size_t n, bytes;
	/* the operation whose calls come */
	size_t run;
	uint64_t operation;
	bool wanted; /* it may be one of operations */
	struct ip_node_values values;
	/* by node: its place in values + 1; 0: it has none yet */
	size_t *places, nplaces;
};

/* The bytes that the values of a call take. */
static size_t size_of(const struct ip_kept_values *args, const struct ip_kept_values *points,
		      size_t npoints)
{
	size_t size = args->size + npoints * sizeof(*points);

	for (size_t i = 0; i < npoints; i++)
		size += points[i].size;
	return size;
}

static size_t taken(const struct ip_node_value *v)
{
	return size_of(&v->args, v->points, v->npoints) + v->result.size;
}

static void free_points(struct ip_node_value *v)
{
	for (size_t i = 0; i < v->npoints; i++)
		free(v->points[i].words);
	free(v->points);
	v->points = NULL;
	v->npoints = 0;
}

static void free_values(struct ip_node_value *v)
{
	free(v->args.words);
	free(v->result.words);
	free_points(v);
}

static void forget(struct reader *r)
{
	for (size_t i = 0; i < r->values.n; i++) {
		r->bytes -= taken(&r->values.items[i]);
		r->places[r->values.items[i].node] = 0;
		free_values(&r->values.items[i]);
	}
	r->values.n = 0;
	r->values.left_out = false;
}

static void begin(struct reader *r, const struct ip_darc_call_end *call)
{
	forget(r);
	r->run = call->run;
	r->operation = call->operation;
	r->wanted = ip_darc_may_be_of(call, r->operations, r->n);
}

static int copy_points(const struct ip_open_call *open, struct ip_node_value *ret)
{
	ret->points = calloc(open->npoints, sizeof(*ret->points));
	if (!ret->points)
		return ip_error("out of memory");
	for (size_t i = 0; i < open->npoints; i++) {
		ret->points[i].function = open->points[i].function;
		ret->npoints = i + 1;
		if (ip_kept_values_set(&ret->points[i], ip_kept_values_get(&open->points[i])) < 0)
			return -1;
	}
	return 0;
}

/* Returns the place for the values of a node. NULL with an error. */
static struct ip_node_value *place_of(struct reader *r, uint32_t node)
{
	if (node >= r->nplaces) {
		const size_t n = 2 * (size_t)node + 16;
		size_t *grown = reallocarray(r->places, n, sizeof(*grown));

		if (!grown) {
			ip_error("out of memory");
			return NULL;
		}
		memset(grown + r->nplaces, 0, (n - r->nplaces) * sizeof(*grown));
		r->places = grown;
		r->nplaces = n;
	}
	if (!r->places[node]) {
		if (ip_array_grow(&r->values.items, r->values.n, sizeof(*r->values.items)) < 0)
			return NULL;
		r->values.items[r->values.n++] = (struct ip_node_value){.node = node};
		r->places[node] = r->values.n;
	}
	return &r->values.items[r->places[node] - 1];
}

static int keep(struct reader *r, const struct ip_darc_call_end *call)
{
	static const struct ip_open_call nothing = {0};
	const uint64_t ticks = call->end - call->start;
	const struct ip_open_call *open = call->open ? call->open : &nothing;
	struct ip_node_value *v = place_of(r, call->node);
	bool fits;

	if (!v)
		return -1;
	if (ticks < v->ticks)
		return 0;
	/* those of a shorter call are not to be shown in their place */
	r->bytes -= taken(v);
	free_points(v);
	v->ticks = ticks;
	fits = !call->node ||
	       r->bytes + size_of(&open->entry, open->points, open->npoints) +
			       (call->result ? IP_PAYLOAD_MAX * sizeof(*call->result) : 0) <=
		       IP_NODE_VALUES_MOST;
	r->values.left_out |= !fits;
	open = fits ? open : &nothing;
	if (ip_kept_values_set(&v->args, ip_kept_values_get(&open->entry)) < 0 ||
	    ip_kept_values_set(&v->result, fits ? call->result : NULL) < 0 ||
	    (open->npoints && copy_points(open, v) < 0))
		return -1;
	r->bytes += taken(v);
	return 0;
}

static int by_node(const void *left, const void *right)
{
	const struct ip_node_value *a = left, *b = right;

	return a->node < b->node ? -1 : a->node > b->node;
}

/* Forgets the places, and those that hold nothing. */
static void drop_empty(struct reader *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->values.n; i++) {
		struct ip_node_value v = r->values.items[i];

		r->places[v.node] = 0;
		if (v.args.size || v.result.size || v.npoints)
			r->values.items[n++] = v;
		else
			free_values(&v);
	}
	r->values.n = n;
}

/* F0 itself has ended. */
static void end(struct reader *r, const struct ip_darc_call_end *call)
{
	size_t i = 0;

	while (i < r->n && (!ip_darc_is_operation(call, r->operations[i]) || r->ret[i].items))
		i++;
	if (i < r->n) {
		drop_empty(r);
		if (r->values.n)
			qsort(r->values.items, r->values.n, sizeof(*r->values.items), by_node);
		r->ret[i] = r->values;
		r->values = (struct ip_node_values){0};
	}
	r->operation = UINT64_MAX;
}

static int on_call(void *context, const struct ip_darc_call_end *call)
{
	struct reader *r = context;

	if (r->run != call->run || r->operation != call->operation)
		begin(r, call);
	if (!r->wanted)
		return 0;
	/* also where it came with nothing: a shorter one of the node is not to be shown then */
	if (keep(r, call) < 0)
		return -1;
	if (!call->node)
		end(r, call);
	return 0;
}

int ip_node_values_read(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
			const struct ip_darc_operation *const *operations, size_t n,
			struct ip_node_values *ret)
{
	struct reader r = {.operations = operations, .ret = ret, .n = n, .operation = UINT64_MAX};
	const struct ip_darc_read_options options = {.function = ftree->nodes[0].function,
						     .depth = depth,
						     .plain = true,
						     .values = true,
						     .call_ended = on_call,
						     .context = &r};
	uint64_t seen;
	int code;

	memset(ret, 0, n * sizeof(*ret));
	code = ip_darc_operations_read(trace, &options, ftree, NULL, 0, &seen);
	forget(&r);
	free(r.values.items);
	free(r.places);
	return code;
}

void ip_node_values_clear(struct ip_node_values *values, size_t n)
{
	for (size_t i = 0; values && i < n; i++) {
		for (size_t k = 0; k < values[i].n; k++)
			free_values(&values[i].items[k]);
		free(values[i].items);
	}
}

const struct ip_node_value *ip_node_values_find(const struct ip_node_values *values, uint32_t node)
{
	const struct ip_node_value key = {.node = node};

	return values->n ? bsearch(&key, values->items, values->n, sizeof(key), by_node) : NULL;
}
