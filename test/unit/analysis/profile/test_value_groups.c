/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups by function and value: that a value has one group, and what becomes of too many values.
 */
#include <stdlib.h>

#include "analysis/profile/value_groups.h"
#include "test/unit/test.h"

static struct ip_recording *load(void)
{
	static const char text[] =
		"iprobe-session\t1\ntsc_hz\t1000\nmodule\t0\tm\t\t0\t1\t-\n"
		"function\t1\t0\tf\t\t0\t-\nfunction\t2\t0\tg\t\t0\t-\n"
		"function\t3\t0\th\t\t0\t-\nfunction\t4\t0\ti\t\t0\t-\n"
		"function\t5\t0\tj\t\t0\t-\nfunction\t6\t0\tk\t\t0\t-\n"
		"signature\t1\tu8:n\nsignature\t2\tu8:other\nsignature\t3\ts:n\n";
	struct ip_recording *s;

	assert_int_equal(ip_recording_parse("session", text, strlen(text), &s), 0);
	return s;
}

static uint32_t group(struct ip_value_groups *g, uint32_t function, unsigned signature,
		      uint64_t word)
{
	const uint64_t payload[] = {IP_PAYLOAD_WORD(1, 0, signature), word};

	return ip_value_groups_at_entry(g, function, payload);
}

static enum ip_value_key_kind kind_of(struct ip_value_groups *g, uint32_t function, uint64_t word)
{
	uint32_t number = group(g, function, 1, word); /* which may move the items */

	return g->items[number]->key.kind;
}

static void test_one_group(void **state)
{
	const uint64_t string[] = {IP_PAYLOAD_WORD(2, 0, 3), 1, 'a'};
	struct ip_recording *s = load();
	struct ip_value_groups *g = ip_value_groups_create(s, "trace", "n");
	char *text;

	(void)state;
	assert_non_null(g);
	assert_int_equal(group(g, 1, 1, 42), 0);
	assert_int_equal(group(g, 2, 1, 42), 1);
	assert_int_equal(group(g, 1, 1, 43), 2);
	assert_int_equal(group(g, 1, 1, 42), 0);
	assert_int_equal(ip_value_groups_at_entry(g, 1, string), 3);
	/* no value, a value of another name, a signature that nobody knows: all the same */
	assert_int_equal(ip_value_groups_at_entry(g, 3, NULL), 4);
	assert_int_equal(group(g, 3, 2, 42), 4);
	assert_int_equal(group(g, 3, 77, 42), 4);
	assert_true(ip_value_groups_has_values(g, 1));
	assert_false(ip_value_groups_has_values(g, 3));
	assert_int_equal(g->n, 5);
	for (unsigned i = 0; i < 5; i++) {
		static const char *const texts[] = {"n=42", "n=42", "n=43", "n=\"a\"", "n (none)"};

		text = ip_value_group_text(g, g->items[i]);
		assert_string_equal(text, texts[i]);
		free(text);
	}
	ip_value_groups_destroy(g);
	ip_recording_destroy(s);
}

static void test_limits(void **state)
{
	struct ip_recording *s = load();
	struct ip_value_groups *g = ip_value_groups_create(s, "trace", "n");
	uint32_t others;

	(void)state;
	for (uint64_t i = 0; i < IP_VALUES_OF_FUNCTION; i++)
		assert_int_equal(group(g, 1, 1, i * 0x100000001), i);
	others = group(g, 1, 1, 1);
	assert_int_equal(others, IP_VALUES_OF_FUNCTION);
	assert_int_equal(g->items[others]->key.kind, IP_KEY_OTHERS);
	assert_int_equal(group(g, 1, 1, 2), others);
	/* those that were first still have their groups */
	for (uint64_t i = 0; i < IP_VALUES_OF_FUNCTION; i++)
		assert_int_equal(group(g, 1, 1, i * 0x100000001), i);
	assert_int_equal(g->others, 2);
	/* another function has its own, until there are too many of all functions */
	for (uint32_t f = 2; f <= 5; f++)
		for (uint64_t i = 0; i < IP_VALUES_OF_FUNCTION; i++)
			assert_int_not_equal(kind_of(g, f, i), IP_KEY_OTHERS);
	assert_int_equal(g->n, IP_VALUES_OF_ALL + 1);
	assert_int_equal(kind_of(g, 6, 1), IP_KEY_OTHERS);
	assert_true(ip_value_groups_has_values(g, 6));
	assert_int_equal(g->others, 3);
	ip_value_groups_destroy(g);
	ip_recording_destroy(s);
}

static void test_ranges(void **state)
{
	struct ip_recording *s = load();
	struct ip_value_groups *g = ip_value_groups_create(s, "trace", "n/log2");

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_int_equal(group(g, 1, 1, i), i ? 64 - __builtin_clzll(i) : 0);
	assert_int_equal(g->n, 18);
	ip_value_groups_destroy(g);
	ip_recording_destroy(s);
}

static void test_unknown(void **state)
{
	struct ip_recording *s = load();

	(void)state;
	assert_null(ip_value_groups_create(s, "trace", "nn"));
	assert_error("no function records a value 'nn'; the nearest are: n; there are: n, other");
	assert_null(ip_value_groups_create(s, "trace", "/log2"));
	assert_error("no function records a value '/log2'");
	ip_recording_destroy(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_group),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
