/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers the values of one operation of the trace after the other, as operation_calls.c its calls.
 */
#include "analysis/darc/node_values.h"

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

static size_t size_of(const uint64_t *payload)
{
	return payload ? (1 + (size_t)IP_PAYLOAD_N(payload[0])) * sizeof(*payload) : 0;
}

static void forget(struct reader *r)
{
	for (size_t i = 0; i < r->values.n; i++) {
		struct ip_node_value *v = &r->values.items[i];

		r->bytes -= size_of(v->args) + size_of(v->result);
		r->places[v->node] = 0;
		free(v->args);
		free(v->result);
	}
	r->values.n = 0;
	r->values.left_out = false;
}

static void begin(struct reader *r, const struct ip_darc_call_end *call)
{
	forget(r);
	r->run = call->run;
	r->operation = call->operation;
	r->wanted = false;
	for (size_t i = 0; i < r->n; i++)
		r->wanted |= r->operations[i]->run == call->run &&
			     r->operations[i]->start == call->operation;
}

static int copy(struct reader *r, const uint64_t *payload, uint64_t **ret)
{
	const size_t size = size_of(payload);

	r->bytes -= size_of(*ret);
	free(*ret);
	*ret = NULL;
	if (!size)
		return 0;
	*ret = malloc(size);
	if (!*ret)
		return ip_error("out of memory");
	memcpy(*ret, payload, size);
	r->bytes += size;
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
	const uint64_t ticks = call->end - call->start;
	struct ip_node_value *v = place_of(r, call->node);
	bool fits = r->bytes + size_of(call->args) + size_of(call->result) <= IP_NODE_VALUES_MOST;

	if (!v)
		return -1;
	if (ticks < v->ticks)
		return 0;
	v->ticks = ticks;
	r->values.left_out |= !fits;
	/* those of a shorter call are not to be shown in their place */
	return copy(r, fits ? call->args : NULL, &v->args) < 0
		       ? -1
		       : copy(r, fits ? call->result : NULL, &v->result);
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
		const struct ip_node_value v = r->values.items[i];

		r->places[v.node] = 0;
		if (v.args || v.result)
			r->values.items[n++] = v;
	}
	r->values.n = n;
}

/* F0 itself has ended. */
static void end(struct reader *r, const struct ip_darc_call_end *call)
{
	size_t i = 0;

	while (i < r->n &&
	       (r->operations[i]->run != call->run || r->operations[i]->start != call->operation ||
		r->operations[i]->ticks != call->end - call->start || r->ret[i].items))
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
		for (size_t k = 0; k < values[i].n; k++) {
			free(values[i].items[k].args);
			free(values[i].items[k].result);
		}
		free(values[i].items);
	}
}

const struct ip_node_value *ip_node_values_find(const struct ip_node_values *values, uint32_t node)
{
	const struct ip_node_value key = {.node = node};

	return values->n ? bsearch(&key, values->items, values->n, sizeof(key), by_node) : NULL;
}
