// SPDX-License-Identifier: Apache-2.0
/*
 * What is hot, by packets of which all is known.
 */
#include "collector/hot_functions.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define COST	50u /* of a pair, ticks */
#define HZ	1000000000u
#define OUTER	7u
#define INNER	9u
#define PACKETS 40

struct packet {
	uint64_t words[4095], time;
	size_t n;
};

static void put(struct packet *p, uint32_t number, unsigned kind, uint64_t after)
{
	p->time += after;
	p->words[p->n++] = (uint64_t)number << 32 | (uint32_t)(p->time << 3 | kind);
}

/* outer calls inner ten times, which takes own ticks by itself, and idles for pause between two
 * calls. */
static void fill(struct packet *p, uint64_t own, uint64_t pause)
{
	p->n = 0;
	while (p->n + 30 < 4095) {
		put(p, OUTER, IP_PROBE_ENTRY, pause);
		for (int i = 0; i < 10; i++) {
			put(p, INNER, IP_PROBE_ENTRY, COST / 2);
			put(p, INNER, IP_PROBE_EXIT, own + COST / 2);
		}
		put(p, OUTER, IP_PROBE_EXIT, 1000 + COST / 2);
	}
}

static size_t look(struct ip_hot *hot, uint64_t own, uint64_t pause, struct ip_hot_function *ret)
{
	static struct packet p;

	p.time = 1000;
	for (int i = 0; i < PACKETS; i++) {
		uint64_t begin = p.time;

		fill(&p, own, pause);
		ip_hot_packet(hot, p.words, p.n, p.n, begin, p.time);
	}
	return ip_hot_take(hot, HZ, ret, 8);
}

static void test_short_and_often(void **state)
{
	struct ip_hot *hot = ip_hot_create(50);
	struct ip_hot_function f[8];

	(void)state;
	assert_non_null(hot);
	assert_in_range(ip_hot_cost(hot), 1, 100000);
	ip_hot_set_cost(hot, COST);
	/* as long as its probes: half of its time is theirs; outer is not */
	assert_int_equal(look(hot, COST, 100, f), 1);
	assert_int_equal(f[0].number, INNER);
	assert_int_equal(f[0].own_ticks, COST);
	assert_int_equal(f[0].share, 50);
	assert_in_range(f[0].calls, 18000, 19000);
	assert_false(ip_hot_is_even_counted(hot, &f[0]));
	/* nothing by itself: a count takes more than it */
	assert_int_equal(look(hot, 0, 100, f), 1);
	assert_int_equal(f[0].share, 100);
	assert_true(ip_hot_is_even_counted(hot, &f[0]));
	/* a little longer */
	assert_int_equal(look(hot, COST + 2, 100, f), 0);
	ip_hot_destroy(hot);
}

/* Short, but its probes take less than a hundredth of the time. */
static void test_short_and_seldom(void **state)
{
	struct ip_hot *hot = ip_hot_create(50);
	struct ip_hot_function f[8];

	(void)state;
	assert_non_null(hot);
	ip_hot_set_cost(hot, COST);
	assert_int_equal(look(hot, 0, 10 * COST * IP_HOT_OFTEN, f), 0);
	assert_int_equal(look(hot, 0, 10 * COST * IP_HOT_OFTEN / 2, f), 1);
	ip_hot_destroy(hot);
}

/* Exits without entries, entries without exits, records that are longer, and words that end too
 * soon. */
static void test_any_words(void **state)
{
	struct ip_hot *hot = ip_hot_create(50);
	struct ip_hot_function f[8];
	uint64_t words[512], random = 88172645463325252ull;

	(void)state;
	assert_non_null(hot);
	for (int round = 0; round < 4000; round++) {
		for (unsigned i = 0; i < 512; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			words[i] = round % 2 ? random : (random & 0x300000007ull);
		}
		ip_hot_packet(hot, words, 1 + random % 511, 512, 0, 1);
	}
	ip_hot_take(hot, HZ, f, 8);
	ip_hot_destroy(hot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_short_and_often),
					   cmocka_unit_test(test_short_and_seldom),
					   cmocka_unit_test(test_any_words)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
