/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations, built of calls.
 */
#include <stdlib.h>

#include "analysis/darc/operations.h"
#include "common/interrupted.h"
#include "test/unit/test.h"

enum { F0 = 1, A, B, C };

struct world {
	struct ip_ftree ftree;
	struct ip_darc_builder *builder;
	struct ip_darc_operations operations;
	bool takes;
};

static bool take(void *context, struct ip_darc_operation *operation)
{
	struct world *w = context;

	if (w->takes)
		assert_int_equal(ip_darc_operations_add(&w->operations, operation), 0);
	return w->takes;
}

static void begin(struct world *w, uint32_t depth)
{
	const struct ip_darc_builder_options options = {
		.function = F0, .depth = depth, .own = true, .ended = take, .context = w};

	*w = (struct world){.takes = true};
	assert_int_equal(ip_ftree_begin(&w->ftree, F0), 0);
	w->builder = ip_darc_builder_create(&w->ftree, &options);
	assert_non_null(w->builder);
	ip_darc_builder_run(w->builder, 7);
}

static void end(struct world *w)
{
	ip_darc_builder_destroy(w->builder);
	ip_darc_operations_clear(&w->operations);
	ip_ftree_clear(&w->ftree);
}

static uint32_t enter(struct world *w, uint32_t function, uint64_t tsc)
{
	return ip_darc_builder_enter(w->builder, function, 0, 0, tsc, 0);
}

static void leave(struct world *w, uint32_t number, uint64_t start, uint64_t tsc)
{
	ip_darc_builder_leave(w->builder, number, start, tsc, 0);
}

/* A call from one time to another. */
static void call(struct world *w, uint32_t function, uint64_t from, uint64_t to)
{
	leave(w, enter(w, function, from), from, to);
}

/* What lies outside of F0 is no part; of a loop the longest call counts, and the sum is kept. */
static void test_loop(void **state)
{
	const struct ip_darc_call *a, *b;
	struct world w;
	uint32_t f0, number;

	(void)state;
	begin(&w, 9);
	call(&w, A, 1, 2);
	f0 = enter(&w, F0, 10);
	call(&w, A, 11, 13);
	number = enter(&w, A, 20);
	call(&w, B, 21, 26);
	leave(&w, number, 20, 30);
	call(&w, A, 31, 32);
	leave(&w, f0, 10, 40);
	assert_int_equal(w.operations.n, 1);
	assert_int_equal(w.operations.items[0].run, 7);
	assert_int_equal(w.operations.items[0].ticks, 30);
	a = w.operations.items[0].call->callees;
	assert_null(a->next);
	assert_int_equal(a->start, 20);
	assert_int_equal(a->ticks, 10);
	assert_int_equal(a->sum, 13);
	assert_int_equal(a->count, 3);
	assert_int_equal(w.operations.items[0].call->inside, 13);
	/* the callees of the longest one */
	b = ip_darc_callee(a, a->callees->node);
	assert_int_equal(b->ticks, 5);
	assert_null(ip_darc_callee(b, 1));
	assert_null(ip_darc_callee(NULL, 1));
	/* what belongs to each alone is all of the latency */
	uint64_t sum = 0;
	for (size_t i = 0; i < w.operations.items[0].nown; i++)
		sum += w.operations.items[0].own[i].ticks;
	assert_int_equal(sum, 30);
	end(&w);
}

/* A recursion has a node for each level; what is too deep belongs to the last level. */
static void test_recursion(void **state)
{
	struct world w;
	uint32_t f0, first, second;

	(void)state;
	begin(&w, 2);
	f0 = enter(&w, F0, 0);
	first = enter(&w, A, 1);
	second = enter(&w, A, 2);
	call(&w, A, 3, 9);
	leave(&w, second, 2, 10);
	leave(&w, first, 1, 11);
	leave(&w, f0, 0, 12);
	assert_int_equal(w.ftree.n, 3);
	assert_int_equal(w.ftree.nodes[2].parent, 1);
	assert_int_equal(w.operations.items[0].call->callees->callees->ticks, 8);
	assert_int_equal(w.operations.items[0].call->callees->callees->inside, 0);
	assert_null(w.operations.items[0].call->callees->callees->callees);
	/* F0 within itself is a part of the outer one */
	f0 = enter(&w, F0, 20);
	call(&w, F0, 21, 22);
	leave(&w, f0, 20, 25);
	assert_int_equal(w.operations.n, 2);
	end(&w);
}

/* Call sites tell the same function apart. */
static void test_call_sites(void **state)
{
	struct world w;
	uint32_t f0, a;

	(void)state;
	begin(&w, 2);
	f0 = enter(&w, F0, 0);
	for (uint64_t site = 100; site < 102; site++) {
		a = ip_darc_builder_enter(w.builder, A, 3, site, site, 0);
		ip_darc_builder_leave(w.builder, a, site, site + 1, 0);
	}
	leave(&w, f0, 0, 200);
	assert_int_equal(w.ftree.n, 3);
	assert_int_equal(w.ftree.nodes[1].call_site, 100);
	assert_int_equal(w.ftree.nodes[2].member, 3);
	end(&w);
}

/* An exception ends several calls at once. Their ends, which come later, mean nothing. */
static void test_unwound(void **state)
{
	struct world w;
	uint32_t f0, a, b;

	(void)state;
	begin(&w, 9);
	f0 = enter(&w, F0, 0);
	a = enter(&w, A, 1);
	b = enter(&w, B, 2);
	leave(&w, a, 1, 5);
	leave(&w, b, 2, 9);
	call(&w, C, 6, 7);
	leave(&w, b, 2, 9);
	leave(&w, f0, 0, 10);
	assert_int_equal(w.operations.n, 1);
	assert_int_equal(w.operations.items[0].call->callees->ticks, 4);
	assert_int_equal(w.operations.items[0].call->callees->callees->ticks, 3);
	end(&w);
}

static void test_spoilt(void **state)
{
	struct world w;
	uint32_t f0;

	(void)state;
	begin(&w, 9);
	ip_darc_builder_spoil(w.builder); /* there is none */
	f0 = enter(&w, F0, 0);
	call(&w, A, 1, 2);
	ip_darc_builder_spoil(w.builder);
	leave(&w, f0, 0, 3);
	f0 = enter(&w, F0, 4); /* the thread ends in it */
	ip_darc_builder_run(w.builder, 8);
	leave(&w, f0, 4, 5);
	assert_int_equal(w.operations.n, 0);
	assert_int_equal(ip_darc_builder_spoilt(w.builder), 2);
	call(&w, F0, 6, 7);
	assert_int_equal(w.operations.n, 1);
	/* nothing of the calls before is left in it */
	assert_null(w.operations.items[0].call->callees);
	assert_int_equal(w.operations.items[0].nown, 1);
	w.takes = false;
	call(&w, F0, 8, 9);
	assert_int_equal(w.operations.n, 1);
	assert_false(ip_darc_builder_failed(w.builder));
	end(&w);
}

/* Waiting for a CPU is no part of what calls take, but of what the operation takes. */
static void test_queued(void **state)
{
	struct world w;
	uint32_t f0, a;

	(void)state;
	begin(&w, 9);
	f0 = ip_darc_builder_enter(w.builder, F0, 0, 0, 0, 1000);
	a = ip_darc_builder_enter(w.builder, A, 0, 0, 10, 1002);
	ip_darc_builder_leave(w.builder, a, 10, 50, 1012);
	ip_darc_builder_leave(w.builder, f0, 0, 100, 1015);
	assert_int_equal(w.operations.items[0].ticks, 100);
	assert_int_equal(w.operations.items[0].queued, 15);
	assert_int_equal(w.operations.items[0].call->ticks, 85);
	assert_int_equal(w.operations.items[0].call->callees->ticks, 30);
	end(&w);
}

/* A function with 100,000 calls in its code: beyond some they are told by the function alone. */
static void test_many_places(void **state)
{
	const uint32_t n = 100000;
	struct world w;
	uint32_t serve;
	const struct ip_darc_call *found;

	begin(&w, 64);
	serve = enter(&w, F0, 1);
	for (uint32_t i = 0; i < n; i++) {
		const uint64_t at = 10 + 2 * i;

		leave(&w, ip_darc_builder_enter(w.builder, A, 0, 1 + i, at, 0), at, at + 1);
	}
	call(&w, B, 10 + 2 * n, 15 + 2 * n);
	leave(&w, serve, 1, 20 + 2 * n);
	assert_false(ip_darc_builder_failed(w.builder));
	assert_int_equal(w.operations.n, 1);
	assert_int_equal(w.ftree.n, 1 + IP_FTREE_SITES_MOST + 2);
	found = ip_darc_callee(w.operations.items[0].call, 1 + IP_FTREE_SITES_MOST);
	assert_int_equal(found->count, n - IP_FTREE_SITES_MOST);
	assert_int_equal(w.ftree.nodes[found->node].call_site, 0);
	found = ip_darc_callee(w.operations.items[0].call, 2 + IP_FTREE_SITES_MOST);
	assert_int_equal(found->ticks, 5);
	end(&w);
}

/* One that calls many functions: those beyond are a part of it. */
static void test_many_functions(void **state)
{
	const uint32_t n = 20000;
	struct world w;
	uint32_t serve;

	begin(&w, 64);
	serve = enter(&w, F0, 1);
	for (uint32_t i = 0; i < n; i++)
		call(&w, A + i, 10 + 2 * i, 11 + 2 * i);
	leave(&w, serve, 1, 20 + 2 * n);
	assert_false(ip_darc_builder_failed(w.builder));
	assert_int_equal(w.operations.n, 1);
	assert_int_equal(w.ftree.n, 1 + IP_FTREE_CHILDREN_MOST);
	assert_int_equal(w.operations.items[0].call->inside, IP_FTREE_CHILDREN_MOST);
	end(&w);
}

struct told {
	struct ip_darc_call_end calls[8];
	size_t n;
};

static void tell(void *context, const struct ip_darc_call_end *call)
{
	struct told *t = context;

	assert_true(t->n < sizeof(t->calls) / sizeof(*t->calls));
	t->calls[t->n++] = *call;
}

static bool leave_it(void *context, struct ip_darc_operation *operation)
{
	(void)context;
	(void)operation;
	return false;
}

/* Each call is told when it ends, F0 last; also calls that are not the longest of their node, and
 * the time for which the thread had no CPU. What lies deeper than the limit is not. */
static void test_calls_are_told(void **state)
{
	static const struct ip_darc_call_end wanted[] = {{7, 10, 2, 21, 26}, {7, 10, 1, 20, 30},
							 {7, 10, 1, 31, 32}, {7, 10, 0, 10, 40},
							 {7, 50, 1, 50, 50}, {7, 50, 0, 50, 50}};
	struct told told = {0};
	const struct ip_darc_builder_options options = {.function = F0,
							.depth = 2,
							.ended = leave_it,
							.call_ended = tell,
							.context = &told};
	struct world w = {0};
	uint32_t f0, a, b;

	(void)state;
	assert_int_equal(ip_ftree_begin(&w.ftree, F0), 0);
	w.builder = ip_darc_builder_create(&w.ftree, &options);
	assert_non_null(w.builder);
	ip_darc_builder_run(w.builder, 7);
	call(&w, A, 1, 2);
	f0 = enter(&w, F0, 10);
	a = enter(&w, A, 20);
	b = enter(&w, B, 21);
	call(&w, C, 22, 23);
	ip_darc_builder_leave(w.builder, b, 21, 26, 3);
	leave(&w, a, 20, 30);
	call(&w, A, 31, 32);
	leave(&w, f0, 10, 40);
	/* where an exit is missing, what is within ends with what is around it */
	f0 = enter(&w, F0, 50);
	enter(&w, A, 50);
	leave(&w, f0, 50, 50);
	assert_int_equal(told.n, sizeof(wanted) / sizeof(*wanted));
	for (size_t i = 0; i < told.n; i++) {
		assert_int_equal(told.calls[i].run, wanted[i].run);
		assert_int_equal(told.calls[i].operation, wanted[i].operation);
		assert_int_equal(told.calls[i].node, wanted[i].node);
		assert_int_equal(told.calls[i].start, wanted[i].start);
		assert_int_equal(told.calls[i].end, wanted[i].end);
	}
	end(&w);
}

static void test_the_user_ends_it(void **state)
{
	struct world w;

	begin(&w, 64);
	call(&w, F0, 1, 5);
	ip_interrupted = 2;
	call(&w, F0, 6, 9);
	ip_interrupted = 0;
	assert_true(ip_darc_builder_failed(w.builder));
	assert_int_equal(w.operations.n, 1);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loop),	       cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_call_sites),     cmocka_unit_test(test_unwound),
		cmocka_unit_test(test_spoilt),	       cmocka_unit_test(test_queued),
		cmocka_unit_test(test_many_places),    cmocka_unit_test(test_many_functions),
		cmocka_unit_test(test_calls_are_told), cmocka_unit_test(test_the_user_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
