/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for root causes in operations whose causes are known.
 */
#include <stdlib.h>

#include "analysis/darc/root_causes.h"
#include "test/unit/test.h"

#define MS 1000000u

enum { F0 = 1, A, B, C, D };

struct world {
	struct ip_ftree ftree;
	struct ip_darc_operations peak, reference;
	struct ip_root_causes causes;
};

static void begin(struct world *w)
{
	*w = (struct world){0};
	assert_int_equal(ip_ftree_begin(&w->ftree, F0), 0);
}

static void end(struct world *w)
{
	ip_root_causes_clear(&w->causes);
	ip_darc_operations_clear(&w->peak);
	ip_darc_operations_clear(&w->reference);
	ip_ftree_clear(&w->ftree);
}

/* A call of F0 that takes so long by itself. */
static struct ip_darc_call *operation(struct world *w, struct ip_darc_operations *to, uint64_t own)
{
	struct ip_darc_operation o = {.ticks = own, .call = calloc(1, sizeof(*o.call))};

	assert_non_null(o.call);
	*o.call = (struct ip_darc_call){.ticks = own, .sum = own, .count = 1};
	assert_int_equal(ip_darc_operations_add(to, &o), 0);
	(void)w;
	return o.call;
}

/* Callees of a call: count of them, the longest of longest, the others of each. */
static struct ip_darc_call *callees(struct world *w, struct ip_darc_operations *in,
				    struct ip_darc_call *above, uint32_t function, uint64_t longest,
				    uint64_t count, uint64_t each)
{
	struct ip_darc_call *c = calloc(1, sizeof(*c));
	const uint64_t sum = longest + (count - 1) * each;

	assert_non_null(c);
	*c = (struct ip_darc_call){.ticks = longest,
				   .sum = sum,
				   .count = count,
				   .next = above->callees,
				   .node = ip_ftree_child(&w->ftree, above->node, function, 0, 0)};
	above->callees = c;
	/* the calls around take as much longer */
	above->inside += sum;
	above->ticks += sum;
	above->sum += sum;
	if (above->node) {
		struct ip_darc_call *root = in->items[in->n - 1].call;

		root->ticks += sum;
		root->sum += sum;
		root->inside += sum;
	}
	in->items[in->n - 1].ticks += sum;
	return c;
}

static void find_in(struct world *w, uint32_t depth, double peak_from)
{
	const struct ip_root_causes_options options = {.depth = depth,
						       .maxcount_percent = 20,
						       .ticks_per_ns = 1,
						       .queue = true,
						       .peak_from = peak_from};

	assert_int_equal(
		ip_root_causes_find(&w->ftree, &w->peak, &w->reference, &options, &w->causes), 0);
}

static void find(struct world *w, uint32_t depth)
{
	find_in(w, depth, 0);
}

/* A callee that always takes longest is no cause of what is slow. */
static void test_reference(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, 10 * MS, 1, 0);
		callees(&w, to, f0, B, i < 30 ? 7 * MS : MS / 2, 1, 0);
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 1);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, B);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_OWN);
	assert_true(w.causes.items[0].share == 1);
	assert_int_equal(w.causes.figures[w.causes.items[0].node].maxcount, 30);
	end(&w);
	/* without other operations to compare with it is the largest part */
	begin(&w);
	for (unsigned i = 0; i < 30; i++) {
		struct ip_darc_call *f0 = operation(&w, &w.peak, MS / 10);

		callees(&w, &w.peak, f0, A, 10 * MS, 1, 0);
		callees(&w, &w.peak, f0, B, 2 * MS, 1, 0);
	}
	find(&w, 9);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	end(&w);
}

/* Two causes, one of them four times as frequent; and a third one, which is rare. */
static void test_several(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 150; i++) {
		struct ip_darc_operations *to = i < 100 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, i < 72 ? 9 * MS : MS / 10, 1, 0);
		callees(&w, to, f0, B, i >= 72 && i < 96 ? 9 * MS : MS / 10, 1, 0);
		callees(&w, to, f0, C, i >= 96 && i < 100 ? 9 * MS : MS / 10, 1, 0);
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 2);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	assert_true(w.causes.items[0].share == 0.72);
	assert_true(w.causes.items[1].share == 0.24);
	end(&w);
}

/* More calls make a loop long: its function is the cause. Slower calls: the callee is. */
static void test_loops(void **state)
{
	struct world w;

	(void)state;
	for (int slower = 0; slower < 2; slower++) {
		begin(&w);
		for (unsigned i = 0; i < 80; i++) {
			struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
			struct ip_darc_call *f0 = operation(&w, to, MS / 10), *a;
			const uint64_t each = slower && i < 30 ? MS : MS / 10;

			a = callees(&w, to, f0, A, MS / 10, 1, 0);
			callees(&w, to, a, B, each, !slower && i < 30 ? 100 : 10, each);
		}
		find(&w, 9);
		assert_int_equal(w.causes.n, 1);
		assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, slower ? B : A);
		assert_int_equal(w.causes.items[0].loop.node != IP_FTREE_NONE, !slower);
		if (!slower) {
			assert_true(w.causes.items[0].loop.calls == 100);
			assert_true(w.causes.items[0].loop.reference_calls == 10);
		}
		end(&w);
	}
}

static void test_depth(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10), *a;

		a = callees(&w, to, f0, A, MS / 10, 1, 0);
		callees(&w, to, a, B, i < 30 ? 9 * MS : MS / 10, 1, 0);
	}
	find(&w, 1);
	assert_true(w.causes.depth_reached);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_DEPTH);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	end(&w);
}

/* All of it is slower in proportion: there is no cause in the code. */
static void test_spread(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
		const unsigned times = i < 30 ? 4 : 1;
		struct ip_darc_call *f0 = operation(&w, to, times * MS / 5);

		callees(&w, to, f0, A, times * MS, 1, 0);
		callees(&w, to, f0, B, times * MS * 5 / 4, 1, 0);
		callees(&w, to, f0, C, times * MS * 4 / 5, 1, 0);
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 1);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_SPREAD);
	assert_int_equal(w.causes.items[0].node, 0);
	end(&w);
}

/* Waiting for a CPU is a cause by itself. */
static void test_queue(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, MS, 1, 0);
		if (i < 20) {
			to->items[to->n - 1].queued = 8 * MS;
			to->items[to->n - 1].ticks += 8 * MS;
		} else if (i < 30) {
			callees(&w, to, f0, B, 8 * MS, 1, 0);
		}
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 2);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_PREEMPTED);
	assert_int_equal(w.causes.items[0].n, 20);
	assert_int_equal(w.ftree.nodes[w.causes.items[1].node].function, B);
	assert_int_equal(w.causes.items[1].n, 10);
	end(&w);
	/* what would be slow without it has its cause in the code */
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 30 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, i < 30 ? 6 * MS : MS, 1, 0);
		to->items[to->n - 1].queued = i < 30 ? 20 * MS : 0;
		to->items[to->n - 1].ticks += i < 30 ? 20 * MS : 0;
	}
	find_in(&w, 9, 5 * MS);
	assert_int_equal(w.causes.n, 1);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_OWN);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	end(&w);
}

/* What belongs to each node alone, of calls that are called once. */
static void add_own(struct ip_darc_operations *to, const struct ip_darc_call *call)
{
	struct ip_darc_operation *o = &to->items[to->n - 1];

	o->own = realloc(o->own, (o->nown + 1) * sizeof(*o->own));
	assert_non_null(o->own);
	o->own[o->nown++] = (struct ip_darc_own){call->node, call->sum - call->inside, call->count};
	for (const struct ip_darc_call *c = call->callees; c; c = c->next)
		add_own(to, c);
}

/* What another program does to calls hits the function that takes most of the time most often: that
 * is no cause. A function is one that is hit more often than by chance. */
static void test_chance(void **state)
{
	struct world w;

	(void)state;
	for (int keeps = 0; keeps < 2; keeps++) {
		const struct ip_root_causes_options options = {.depth = 9,
							       .maxcount_percent = 20,
							       .ticks_per_ns = 1,
							       .keeps_chance = keeps};

		begin(&w);
		for (unsigned i = 0; i < 220; i++) {
			struct ip_darc_operations *to = i < 20 ? &w.peak : &w.reference;
			struct ip_darc_call *f0 = operation(&w, to, MS / 100);
			const uint64_t a = i < 12 ? 9 * MS : 0, b = i >= 12 && i < 20 ? 9 * MS : 0;

			callees(&w, to, f0, A, 6 * MS / 10 + a, 1, 0);
			callees(&w, to, f0, B, MS / 100 + b, 1, 0);
			callees(&w, to, f0, C, 3 * MS / 10, 1, 0);
			add_own(to, f0);
		}
		assert_int_equal(
			ip_root_causes_find(&w.ftree, &w.peak, &w.reference, &options, &w.causes),
			0);
		assert_int_equal(w.causes.n, 1 + keeps);
		for (size_t i = 0; i < w.causes.n; i++)
			assert_int_equal(w.ftree.nodes[w.causes.items[i].node].function,
					 w.causes.items[i].chance ? A : B);
		end(&w);
	}
}

/* Of two causes that are as frequent, one has so much of the time that each second hit would be
 * there. Behind the other one it is told from chance. */
static void test_behind_another(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 280; i++) {
		struct ip_darc_operations *to = i < 80 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, 5 * MS / 10 + (i < 41 ? 9 * MS : 0), 1, 0);
		callees(&w, to, f0, B, MS / 10 + (i >= 41 && i < 80 ? 9 * MS : 0), 1, 0);
		callees(&w, to, f0, C, 3 * MS / 10, 1, 0);
		add_own(to, f0);
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 2);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	assert_int_equal(w.ftree.nodes[w.causes.items[1].node].function, B);
	end(&w);
}

/* What is found at several places of a function is of one call path. */
static void test_places(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 80; i++) {
		struct ip_darc_operations *to = i < 24 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		for (unsigned place = 0; place < 8; place++) {
			struct ip_darc_call *c = callees(
				&w, to, f0, A, i < 24 && i % 8 == place ? 9 * MS : MS / 100, 1, 0);

			c->node = ip_ftree_child(&w.ftree, 0, A, 0, 0x1000 + place);
		}
		add_own(to, f0);
	}
	find(&w, 9);
	/* of three operations each, none would be enough */
	assert_int_equal(w.causes.n, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(w.causes.items[i].path, w.causes.items[0].path);
	end(&w);
}

/* Of a path that is called at two places, each has more of the time by another measure: by none do
 * both have most of it, so what hits the path in most operations is no chance. */
static void test_measures_of_places(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 224; i++) {
		const bool slow = i < 24, hit = i < 20;
		struct ip_darc_operations *to = slow ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, 45 * MS / 100), *c;

		c = callees(&w, to, f0, A, slow ? MS / 100 : 48 * MS / 100, 1, 0);
		c->node = ip_ftree_child(&w.ftree, 0, A, 0, 0x1000);
		c = callees(&w, to, f0, A, hit ? 9 * MS : MS / 100, 2, slow ? 4 * MS : MS / 100);
		c->node = ip_ftree_child(&w.ftree, 0, A, 0, 0x1001);
		callees(&w, to, f0, B, slow && !hit ? 9 * MS : MS / 100, 1, 0);
		add_own(to, f0);
	}
	find(&w, 9);
	assert_int_equal(w.causes.n, 1);
	assert_int_equal(w.ftree.nodes[w.causes.items[0].node].function, A);
	assert_false(w.causes.items[0].chance);
	end(&w);
}

/* Waiting for a CPU, however often, does not hide what is slow by itself. */
static void test_rare_beside_waiting(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	for (unsigned i = 0; i < 300; i++) {
		struct ip_darc_operations *to = i < 110 ? &w.peak : &w.reference;
		struct ip_darc_call *f0 = operation(&w, to, MS / 10);

		callees(&w, to, f0, A, i < 10 ? 9 * MS : MS / 10, 1, 0);
		if (i >= 10 && i < 110) {
			to->items[to->n - 1].queued = 8 * MS;
			to->items[to->n - 1].ticks += 8 * MS;
		}
	}
	find_in(&w, 9, 5 * MS);
	assert_int_equal(w.causes.n, 2);
	assert_int_equal(w.causes.items[0].stop, IP_DARC_PREEMPTED);
	assert_int_equal(w.ftree.nodes[w.causes.items[1].node].function, A);
	end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reference),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_loops),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_spread),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_behind_another),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_measures_of_places),
		cmocka_unit_test(test_rare_beside_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
