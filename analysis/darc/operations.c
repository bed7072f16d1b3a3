/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds operations. The stack has the calls that are open in the operation. When one ends, it
 * becomes the callee of the one below it, or is given up for a longer one of its node.
 */
#include "analysis/darc/operations.h"

#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/error.h"
#include "common/interrupted.h"

struct open_call {
	struct ip_darc_call *call; /* NULL: it has no node */
	uint64_t start, queued;
	uint64_t inside; /* ticks in all callees with nodes */
};

struct ip_darc_builder {
	struct ip_ftree *ftree;
	struct ip_darc_builder_options options;
	struct open_call *stack;
	size_t n, room;
	size_t run, own_run; /* own_run: of the operations; run: of the calls that begin now */
	bool spoilt, failed;
	uint64_t nspoilt;
	struct ip_darc_call *unused; /* a list by next */
	/* by node: its own ticks and its calls in this operation; touched: nodes that have some */
	struct ip_darc_own *own;
	uint32_t *touched;
	size_t ntouched, own_room;
};

struct ip_darc_builder *ip_darc_builder_create(struct ip_ftree *ftree,
					       const struct ip_darc_builder_options *options)
{
	struct ip_darc_builder *b = calloc(1, sizeof(*b));

	if (!b) {
		ip_error("out of memory");
		return NULL;
	}
	b->ftree = ftree;
	b->options = *options;
	return b;
}

static void free_calls(struct ip_darc_call *calls)
{
	while (calls) {
		struct ip_darc_call *next = calls->next;

		free_calls(calls->callees);
		free(calls);
		calls = next;
	}
}

/* Gives a call and its callees back, for calls to come. */
static void give_up(struct ip_darc_builder *b, struct ip_darc_call *call)
{
	for (struct ip_darc_call *c = call->callees, *next; c; c = next) {
		next = c->next;
		give_up(b, c);
	}
	call->next = b->unused;
	b->unused = call;
}

static void drop_all(struct ip_darc_builder *b)
{
	while (b->n)
		if (b->stack[--b->n].call)
			give_up(b, b->stack[b->n].call);
	for (size_t i = 0; i < b->ntouched; i++)
		b->own[b->touched[i]] = (struct ip_darc_own){0};
	b->ntouched = 0;
	b->spoilt = false;
}

void ip_darc_builder_destroy(struct ip_darc_builder *b)
{
	if (!b)
		return;
	drop_all(b);
	for (struct ip_darc_call *c = b->unused, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(b->stack);
	free(b->own);
	free(b->touched);
	free(b);
}

void ip_darc_builder_run(struct ip_darc_builder *b, size_t run)
{
	b->nspoilt += b->n > 0;
	drop_all(b);
	b->run = b->own_run = run;
}

void ip_darc_builder_switch(struct ip_darc_builder *b, size_t run)
{
	b->run = run;
}

bool ip_darc_builder_operation(const struct ip_darc_builder *b, uint64_t *ret_start)
{
	if (b->n)
		*ret_start = b->stack[0].start;
	return b->n > 0;
}

static uint32_t fail(struct ip_darc_builder *b, const char *why)
{
	b->failed = true;
	ip_error("%s", why);
	return 0;
}

static uint32_t fail_of_memory(struct ip_darc_builder *b)
{
	return fail(b, "out of memory");
}

static struct ip_darc_call *take_call(struct ip_darc_builder *b)
{
	struct ip_darc_call *c = b->unused;

	if (c)
		b->unused = c->next;
	else
		c = malloc(sizeof(*c));
	if (c)
		*c = (struct ip_darc_call){0};
	return c;
}

/* Whether a call that begins is to have a node. What other threads were waited for, and what they
 * did while an object waited, is called from elsewhere. */
static bool is_node(const struct ip_darc_builder *b, uint32_t function, uint32_t member,
		    uint64_t call_site)
{
	const struct ip_darc_call *above = b->n ? b->stack[b->n - 1].call : NULL;

	return !b->n || (above && (!b->options.is_callee || call_site >= IP_FTREE_QUEUED ||
				   b->ftree->nodes[above->node].call_site == IP_FTREE_QUEUED ||
				   b->options.is_callee(b->options.context,
							b->ftree->nodes[above->node].function,
							function, member, call_site)));
}

uint32_t ip_darc_builder_enter(struct ip_darc_builder *b, uint32_t function, uint32_t member,
			       uint64_t call_site, uint64_t tsc, uint64_t queued)
{
	struct open_call *o;
	uint32_t node = 0;

	if (b->failed || (!b->n && function != b->options.function))
		return 0;
	/* of a process, the search goes on after a signal, and tells what it knows */
	if (ip_interrupted)
		return fail(b, "interrupted");
	if (b->n == b->room) {
		size_t room = b->room ? 2 * b->room : 64;

		o = room < UINT32_MAX ? reallocarray(b->stack, room, sizeof(*o)) : NULL;
		if (!o)
			return fail_of_memory(b);
		b->stack = o;
		b->room = room;
	}
	o = &b->stack[b->n];
	*o = (struct open_call){.start = tsc, .queued = queued};
	if (b->n <= b->options.depth && is_node(b, function, member, call_site)) {
		if (b->n)
			node = ip_ftree_child(b->ftree, o[-1].call->node, function, member,
					      call_site);
		o->call = node >= IP_FTREE_FULL ? NULL : take_call(b);
		if (!o->call && node != IP_FTREE_FULL)
			return fail_of_memory(b);
		if (o->call) {
			o->call->node = node;
			o->call->run = b->run;
		}
	}
	return ++b->n;
}

/* The ticks of a call that belong to its node alone. */
static void add_own(struct ip_darc_builder *b, uint32_t node, uint64_t ticks)
{
	if (node >= b->own_room) {
		size_t room = b->own_room ? b->own_room : 256;
		struct ip_darc_own *own;
		uint32_t *touched;

		while (room <= node)
			room *= 2;
		own = reallocarray(b->own, room, sizeof(*own));
		b->own = own ? own : b->own;
		touched = reallocarray(b->touched, room, sizeof(*touched));
		b->touched = touched ? touched : b->touched;
		if (!own || !touched) {
			fail_of_memory(b);
			return;
		}
		memset(own + b->own_room, 0, (room - b->own_room) * sizeof(*own));
		b->own_room = room;
	}
	if (!b->own[node].calls++)
		b->touched[b->ntouched++] = node;
	b->own[node].node = node;
	b->own[node].ticks += ticks;
}

/* A call has ended: the call below it has it as a callee. */
static void put(struct ip_darc_builder *b, struct ip_darc_call *above, struct ip_darc_call *call)
{
	struct ip_darc_call **at = &above->callees;

	while (*at && (*at)->node != call->node)
		at = &(*at)->next;
	if (!*at) {
		*at = call;
		return;
	}
	(*at)->sum += call->sum;
	(*at)->count += call->count;
	if (call->ticks <= (*at)->ticks) {
		give_up(b, call);
		return;
	}
	call->sum = (*at)->sum;
	call->count = (*at)->count;
	call->next = (*at)->next;
	give_up(b, *at);
	*at = call;
}

static void end_operation(struct ip_darc_builder *b, struct ip_darc_call *call, uint64_t queued)
{
	struct ip_darc_operation operation = {.start = call->start,
					      .ticks = call->ticks + queued,
					      .queued = queued,
					      .run = b->own_run,
					      .call = call};

	if (b->options.own && b->ntouched) {
		operation.own = calloc(b->ntouched, sizeof(*operation.own));
		if (!operation.own)
			fail_of_memory(b);
		for (; operation.own && operation.nown < b->ntouched; operation.nown++)
			operation.own[operation.nown] = b->own[b->touched[operation.nown]];
	}
	if (!b->failed && b->options.ended(b->options.context, &operation))
		b->stack[0].call = NULL;
	else
		free(operation.own);
}

/* A call has ended. */
static void tell_call(const struct ip_darc_builder *b, const struct ip_darc_call *call,
		      const struct open_call *open, uint64_t tsc, uint64_t queued)
{
	const struct ip_darc_call_end ended = {.run = b->own_run,
					       .operation = b->stack[0].start,
					       .node = call->node,
					       .start = call->start,
					       .end = tsc > call->start ? tsc : call->start,
					       .start_queued = open->queued,
					       .end_queued = queued,
					       .number = b->n};

	b->options.call_ended(b->options.context, &ended);
}

void ip_darc_builder_leave(struct ip_darc_builder *b, uint32_t number, uint64_t start, uint64_t tsc,
			   uint64_t queued)
{
	if (!number || number > b->n || b->stack[number - 1].start != start)
		return;
	while (b->n >= number && b->n) {
		struct open_call *o = &b->stack[b->n - 1];
		struct ip_darc_call *call = o->call;
		const uint64_t all = tsc > o->start ? tsc - o->start : 0,
			       stood = queued > o->queued ? queued - o->queued : 0,
			       ticks = all > stood ? all - stood : 0;

		/* what has no node is a part of the call around it */
		if (b->n > 1 && call)
			o[-1].inside += ticks;
		if (!call) {
			b->n--;
			continue;
		}
		call->start = o->start;
		call->ticks = call->sum = ticks;
		call->count = 1;
		call->inside = o->inside;
		if (b->options.call_ended)
			tell_call(b, call, o, tsc, queued);
		if (b->options.own && !b->spoilt)
			add_own(b, call->node, ticks > call->inside ? ticks - call->inside : 0);
		if (b->n > 1) {
			put(b, o[-1].call, call);
			b->n--;
			continue;
		}
		if (b->spoilt)
			b->nspoilt++;
		else
			end_operation(b, call, all - ticks);
		drop_all(b);
	}
}

void ip_darc_builder_spoil(struct ip_darc_builder *b)
{
	b->spoilt = b->n > 0;
}

uint64_t ip_darc_builder_spoilt(const struct ip_darc_builder *b)
{
	return b->nspoilt;
}

bool ip_darc_builder_failed(const struct ip_darc_builder *b)
{
	return b->failed;
}

void ip_darc_operation_clear(struct ip_darc_operation *o)
{
	free_calls(o->call);
	free(o->own);
	*o = (struct ip_darc_operation){0};
}

void ip_darc_operations_clear(struct ip_darc_operations *o)
{
	for (size_t i = 0; i < o->n; i++)
		ip_darc_operation_clear(&o->items[i]);
	free(o->items);
	*o = (struct ip_darc_operations){0};
}

int ip_darc_operations_add(struct ip_darc_operations *o, const struct ip_darc_operation *operation)
{
	if (ip_array_grow(&o->items, o->n, sizeof(*operation)) < 0)
		return -1;
	o->items[o->n++] = *operation;
	return 0;
}

bool ip_darc_may_be_of(const struct ip_darc_call_end *call,
		       const struct ip_darc_operation *const *operations, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (operations[i]->run == call->run && operations[i]->start == call->operation)
			return true;
	return false;
}

bool ip_darc_is_operation(const struct ip_darc_call_end *call, const struct ip_darc_operation *o)
{
	/* where the clock is coarse, several of a thread may begin at the same time */
	return o->run == call->run && o->start == call->operation &&
	       o->ticks == call->end - call->start;
}

const struct ip_darc_call *ip_darc_callee(const struct ip_darc_call *call, uint32_t node)
{
	const struct ip_darc_call *c = call ? call->callees : NULL;

	while (c && c->node != node)
		c = c->next;
	return c;
}
