/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers the calls of one operation of the trace after the other. Which one it was tells its end:
 * where the clock is coarse, several of a thread may begin at the same time.
 */
#include "analysis/darc/operation_calls.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/darc/read_operations.h"
#include "common/array.h"
#include "common/error.h"

struct reader {
	const struct ip_ftree *ftree;
	const struct ip_darc_operation *const *operations;
	struct ip_operation_calls *ret;
	size_t n, most;
	/* the operation whose calls come */
	size_t run;
	uint64_t operation;
	bool wanted; /* it may be one of operations */
	struct ip_operation_calls calls;
};

/* The callers first. For qsort_r(): context is the ftree. */
static int by_depth(const struct ip_operation_call *a, const struct ip_operation_call *b,
		    const struct ip_ftree *ftree)
{
	const uint32_t x = ftree->nodes[a->node].depth, y = ftree->nodes[b->node].depth;

	return x < y ? -1 : x > y;
}

/* The longest first. A caller is as long as its callees: so it stays where these do. */
static int by_length(const void *left, const void *right, void *context)
{
	const struct ip_operation_call *a = left, *b = right;

	if (a->ticks != b->ticks)
		return a->ticks > b->ticks ? -1 : 1;
	return by_depth(a, b, context);
}

static int by_start(const void *left, const void *right, void *context)
{
	const struct ip_operation_call *a = left, *b = right;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	return by_depth(a, b, context);
}

static void keep_longest(struct reader *r)
{
	if (r->calls.n <= r->most)
		return;
	qsort_r(r->calls.items, r->calls.n, sizeof(*r->calls.items), by_length, (void *)r->ftree);
	r->calls.left_out += r->calls.n - r->most;
	r->calls.n = r->most;
}

static void begin(struct reader *r, const struct ip_darc_call_end *call)
{
	r->run = call->run;
	r->operation = call->operation;
	r->calls.n = r->calls.left_out = 0;
	r->wanted = ip_darc_may_be_of(call, r->operations, r->n);
}

/* F0 itself has ended. */
static void end(struct reader *r, const struct ip_darc_call_end *call)
{
	size_t i = 0;

	while (i < r->n && (!ip_darc_is_operation(call, r->operations[i]) || r->ret[i].items))
		i++;
	if (i < r->n) {
		keep_longest(r);
		qsort_r(r->calls.items, r->calls.n, sizeof(*r->calls.items), by_start,
			(void *)r->ftree);
		r->ret[i] = r->calls;
		r->calls = (struct ip_operation_calls){0};
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
	if (r->calls.n / 2 >= r->most)
		keep_longest(r);
	if (ip_array_grow(&r->calls.items, r->calls.n, sizeof(*r->calls.items)) < 0)
		return -1;
	r->calls.items[r->calls.n++] =
		(struct ip_operation_call){.node = call->node,
					   .start = call->start - call->operation,
					   .ticks = call->end - call->start};
	if (!call->node)
		end(r, call);
	return 0;
}

int ip_operation_calls_read(struct ip_trace_reader *trace, struct ip_ftree *ftree, uint32_t depth,
			    const struct ip_darc_operation *const *operations, size_t n,
			    size_t most, struct ip_operation_calls *ret)
{
	struct reader r = {.ftree = ftree,
			   .operations = operations,
			   .ret = ret,
			   .n = n,
			   .most = most,
			   .operation = UINT64_MAX};
	const struct ip_darc_read_options options = {.function = ftree->nodes[0].function,
						     .depth = depth,
						     .plain = true,
						     .call_ended = on_call,
						     .context = &r};
	uint64_t seen;
	int code;

	memset(ret, 0, n * sizeof(*ret));
	code = ip_darc_operations_read(trace, &options, ftree, NULL, 0, &seen);
	free(r.calls.items);
	return code;
}

void ip_operation_calls_clear(struct ip_operation_calls *calls, size_t n)
{
	for (size_t i = 0; calls && i < n; i++)
		free(calls[i].items);
}
