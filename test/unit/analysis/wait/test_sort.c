/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorting by parts that are in order: any number of them, of items of any size, and what is equal
 * keeps its order.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/wait/sort.h"
#include "test/unit/test.h"

#define MOST 3000u

struct item {
	uint32_t key, before;
	char more[5];
};

static int by_key(const void *left, const void *right)
{
	const struct item *a = left, *b = right;

	return a->key < b->key ? -1 : a->key > b->key;
}

static unsigned seed;

static unsigned rnd(unsigned n)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % n;
}

/* Parts of random lengths up to most, each in order. */
static void fill(struct item *items, size_t n, unsigned most, unsigned keys)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		if (!left)
			left = 1 + rnd(most);
		else
			left--;
		items[i].key = left && i ? items[i - 1].key + rnd(3) : rnd(keys);
		items[i].before = i;
		memset(items[i].more, (int)(i & 127), sizeof(items[i].more));
	}
}

static void check(const struct item *items, size_t n)
{
	uint8_t seen[MOST] = {0};

	for (size_t i = 0; i < n; i++) {
		assert_true(items[i].before < n && !seen[items[i].before]);
		seen[items[i].before] = 1;
		assert_int_equal(items[i].more[4], items[i].before & 127);
		if (!i)
			continue;
		assert_true(items[i - 1].key <= items[i].key);
		if (items[i - 1].key == items[i].key)
			assert_true(items[i - 1].before < items[i].before);
	}
}

static void test_any(void **state)
{
	static struct item items[MOST];

	(void)state;
	for (unsigned i = 0; i < 2000; i++) {
		const size_t n = i < 40 ? i : rnd(MOST);

		seed = i;
		fill(items, n, i % 5 ? 1 + rnd(i % 3 ? 9 : MOST) : 1, i % 2 ? 7 : 100000);
		ip_sort(items, n, sizeof(*items), by_key);
		check(items, n);
	}
}

static unsigned compared;

static int count(const void *left, const void *right)
{
	compared++;
	return by_key(left, right);
}

/* What is in order takes one comparison an item; two such lists, two. */
static void test_few_comparisons(void **state)
{
	static struct item items[MOST];

	(void)state;
	for (unsigned parts = 1; parts <= 2; parts++) {
		for (size_t i = 0; i < MOST; i++)
			items[i] = (struct item){.key = i % (MOST / parts) * 2 + i / (MOST / parts),
						 .before = i};
		compared = 0;
		ip_sort(items, MOST, sizeof(*items), count);
		assert_true(compared < parts * MOST);
		for (size_t i = 1; i < MOST; i++)
			assert_true(items[i - 1].key <= items[i].key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any),
		cmocka_unit_test(test_few_comparisons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
