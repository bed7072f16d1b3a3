/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of values: what is equal, what is put together, and how keys are sorted and written, for
 * every type and for the values that a hostile trace may hold.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/value_key.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define WORDS 64u

/* A key with all that it points to. */
struct made {
	char *text;
	struct ip_signature signature;
	uint64_t payload[WORDS], *words;
	struct ip_value_key key;
};

static void make_words(const char *signature, unsigned missing, const uint64_t *words, unsigned n,
		       bool ranges, struct made *ret)
{
	struct ip_value value;
	bool found;

	ret->text = strdup(signature);
	assert_int_equal(ip_signature_parse(ret->text, &ret->signature), 0);
	ret->payload[0] = IP_PAYLOAD_WORD(n, missing, 1);
	memcpy(ret->payload + 1, words, n * sizeof(*words));
	found = ip_value_at(&ret->signature, ret->payload, 0, &value);
	ret->key = ip_value_key_make(found ? &value : NULL, ranges);
	/* the copy must not need the payload */
	assert_int_equal(ip_value_key_copy(&ret->key, &ret->words), 0);
	memset(ret->payload, 0xee, sizeof(ret->payload));
}

static void make(const char *signature, uint64_t word, bool ranges, struct made *ret)
{
	const uint64_t words[2] = {word};

	make_words(signature, 0, words, 2, ranges, ret);
}

static void clear(struct made *made)
{
	free(made->text);
	free(made->words);
}

static void check(struct made *made, const char *is, const char *text, const char *shown,
		  const char *json)
{
	char *written = NULL, *plain;
	size_t size;
	FILE *out = open_memstream(&written, &size);
	struct ip_json j;

	ip_value_key_print(out, &made->key);
	putc('\n', out);
	ip_json_init(&j, out);
	ip_value_key_json(&j, NULL, &made->key);
	fclose(out);
	assert_string_equal(ip_value_key_is(&made->key), is);
	*strchr(written, '\n') = '\0';
	assert_string_equal(written, shown);
	written[strlen(written) + 1 + strcspn(written + strlen(written) + 1, "\n")] = '\0';
	assert_string_equal(written + strlen(written) + 1, json);
	plain = ip_value_key_text(&made->key);
	assert_string_equal(plain, text);
	free(plain);
	free(written);
	clear(made);
}

static void check_number(const char *signature, uint64_t word, bool ranges, const char *is,
			 const char *text, const char *json)
{
	struct made made;

	make(signature, word, ranges, &made);
	check(&made, is, text, text, json);
}

static uint64_t bits(double d)
{
	uint64_t word;

	memcpy(&word, &d, sizeof(word));
	return word;
}

static void test_numbers(void **state)
{
	(void)state;
	check_number("i4:n", 0xffffffff, false, "value", "-1", "-1");
	check_number("u4:n", 0xffffffff, false, "value", "4294967295", "4294967295");
	check_number("u8:n", UINT64_MAX, false, "value", "18446744073709551615",
		     "18446744073709551615");
	check_number("i8:n", 1ull << 63, false, "value", "-9223372036854775808",
		     "-9223372036854775808");
	check_number("b:n", 256, false, "value", "false", "false");
	check_number("b:n", 7, false, "value", "true", "true");
	check_number("p:n", 0x10, false, "value", "0x10", "\"0x10\"");
	check_number("f8:n", bits(-0.5), false, "value", "-0.5", "-0.5");
	check_number("f8:n", bits(-0.0), false, "value", "0", "0");
	check_number("f8:n", bits((double)INFINITY), true, "value", "inf", "\"inf\"");
	check_number("f8:n", bits((double)-NAN), true, "value", "nan", "\"nan\"");
	check_number("e4:n{RED=1,BLUE=2}", 2, true, "value", "BLUE", "\"BLUE\"");
	check_number("e4:n{RED=1,BLUE=2}", 9, false, "value", "9", "9");
}

static void test_ranges(void **state)
{
	(void)state;
	check_number("i4:n", 0, true, "value", "0", "0");
	check_number("i4:n", 1, true, "value", "1", "1");
	check_number("i4:n", 2, true, "range", "2..3", "\"2..3\"");
	check_number("i4:n", 4095, true, "range", "2048..4095", "\"2048..4095\"");
	check_number("u8:n", 1ull << 63, true, "range", "9223372036854775808..18446744073709551615",
		     "\"9223372036854775808..18446744073709551615\"");
	check_number("u8:n", UINT64_MAX, true, "range", "9223372036854775808..18446744073709551615",
		     "\"9223372036854775808..18446744073709551615\"");
	check_number("i4:n", 4096, true, "range", "4096..8191", "\"4096..8191\"");
	check_number("i4:n", (uint64_t)-1, true, "value", "-1", "-1");
	check_number("i4:n", (uint64_t)-5, true, "range", "-7..-4", "\"-7..-4\"");
	check_number("i8:n", 1ull << 63, true, "range",
		     "-9223372036854775808..-9223372036854775808",
		     "\"-9223372036854775808..-9223372036854775808\"");
	check_number("u8:n", INT64_MAX, true, "range", "4611686018427387904..9223372036854775807",
		     "\"4611686018427387904..9223372036854775807\"");
	check_number("f8:n", bits(0x1p63), true, "range",
		     "9.2233720368547758e+18..1.8446744073709552e+19",
		     "\"9.2233720368547758e+18..1.8446744073709552e+19\"");
	check_number("f8:n", bits(0.75), true, "range", "0.5..1", "\"0.5..1\"");
	check_number("f8:n", bits(1), true, "range", "1..2", "\"1..2\"");
	check_number("f8:n", bits(-3), true, "range", "-4..-2", "\"-4..-2\"");
	check_number("f8:n", 1, true, "range", "4.9406564584124654e-324..9.8813129168249309e-324",
		     "\"4.9406564584124654e-324..9.8813129168249309e-324\"");
}

static void test_characters(void **state)
{
	struct made made;

	(void)state;
	make("c:n", 'A', false, &made);
	check(&made, "value", "65", "'A' (65)", "65");
	make("c:n", 0x1b, true, &made);
	check(&made, "value", "27", "'\\x1b' (27)", "27");
}

static void make_string(const char *bytes, size_t length, uint64_t flags, struct made *ret)
{
	uint64_t words[WORDS - 1] = {flags | length};

	memcpy(words + 1, bytes, length);
	make_words("s:n", 0, words, 1 + (length + 7) / 8, true, ret);
}

static void test_strings(void **state)
{
	static const char evil[] = "\x1b[2J\xff\xe2\x80\xae\n";
	char huge[400];
	struct made a, b;

	(void)state;
	make_string("GET", 3, 0, &a);
	check(&a, "value", "GET", "\"GET\"", "\"GET\"");
	make_string("", 0, 0, &a);
	check(&a, "value", "", "\"\"", "\"\"");
	make_string("abc", 3, IP_STRING_CUT, &a);
	check(&a, "cut", "abc", "\"abc\"...", "\"abc\"");
	make_string("", 0, IP_STRING_NULL, &a);
	check(&a, "null", "", "NULL", "null");
	make_string(evil, sizeof(evil) - 1, 0, &a);
	check(&a, "value", evil, "\"\\x1b[2J\\xff\\xe2\\x80\\xae\\n\"",
	      "\"\\u001b[2J\xef\xbf\xbd\\u202e\\n\"");
	/* a string that differs in its last byte is another one */
	memset(huge, 'x', sizeof(huge));
	make_string(huge, sizeof(huge), 0, &a);
	huge[sizeof(huge) - 1] = 'y';
	make_string(huge, sizeof(huge), 0, &b);
	assert_false(ip_value_key_equals(&a.key, &b.key));
	assert_true(ip_value_key_compare(&a.key, &b.key) < 0);
	assert_true(ip_value_key_hash(&a.key) != ip_value_key_hash(&b.key));
	clear(&a);
	clear(&b);
}

static void test_missing(void **state)
{
	const uint64_t string[] = {IP_STRING_UNREADABLE, 0x10}, cut_off[] = {1000, 'a'};
	struct made made;

	(void)state;
	make_words("i4:n", 1, string, 1, false, &made);
	check(&made, "missing", "", "(none)", "null");
	make_words("s:n", 0, string, 2, false, &made);
	check(&made, "missing", "", "(none)", "null");
	make_words("s:n", 0, cut_off, 2, false, &made); /* the payload ends inside */
	check(&made, "missing", "", "(none)", "null");
	make_words("x:n", 0, string, 1, false, &made);
	check(&made, "missing", "", "(none)", "null");
	make_words("-:n", 0, string, 0, false, &made);
	check(&made, "missing", "", "(none)", "null");
}

static bool equal(const char *s, uint64_t x, const char *t, uint64_t y, bool ranges)
{
	struct made a, b;
	bool ret;

	make(s, x, ranges, &a);
	make(t, y, ranges, &b);
	ret = ip_value_key_equals(&a.key, &b.key);
	assert_int_equal(ret, ip_value_key_equals(&b.key, &a.key));
	assert_true(!ret || (ip_value_key_hash(&a.key) == ip_value_key_hash(&b.key) &&
			     !ip_value_key_compare(&a.key, &b.key)));
	clear(&a);
	clear(&b);
	return ret;
}

static void test_equal(void **state)
{
	(void)state;
	assert_true(equal("i4", 5, "u8", 5, false)); /* one number, whatever its type */
	assert_true(equal("i4", 0xff00000005, "i4", 5, false));
	assert_false(equal("i8", UINT64_MAX, "u8", UINT64_MAX, false));
	assert_true(equal("f8", bits((double)NAN), "f8", 0xfff8000000000123, false));
	assert_true(equal("f8", bits(0.0), "f8", bits(-0.0), false));
	assert_false(equal("f8", bits(0.0), "f8", 1, false));
	assert_true(equal("i4", 4, "i4", 7, true));
	assert_false(equal("i4", 7, "i4", 8, true));
	assert_false(equal("i4", (uint64_t)-7, "i4", 7, true));
	assert_false(equal("p", 4, "p", 7, true)); /* an address is no size */
	assert_false(equal("p", 4, "i4", 4, false));
}

static void test_order(void **state)
{
	static const struct {
		const char *signature;
		uint64_t word;
	} sorted[] = {{"i8", 1ull << 63}, {"i4", (uint64_t)-1},	      {"f8", 0x8000000000000001},
		      {"i4", 0},	  {"f4", 0x3f000000},	      {"u4", 1},
		      {"u8", UINT64_MAX}, {"f8", 0x7ff8000000000000}, {"c", 1},
		      {"b", 0},		  {"e4:n{A=1}", 1},	      {"p", 0}};
	struct made a, b;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sorted); i++)
		for (size_t k = 0; k < N_ELEMENTS(sorted); k++) {
			int order;

			make(sorted[i].signature, sorted[i].word, false, &a);
			make(sorted[k].signature, sorted[k].word, false, &b);
			order = ip_value_key_compare(&a.key, &b.key);
			if ((i < k) != (order < 0) || (i > k) != (order > 0))
				fail_msg("%zu and %zu: %d", i, k, order);
			clear(&a);
			clear(&b);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),	   cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_characters), cmocka_unit_test(test_strings),
		cmocka_unit_test(test_missing),	   cmocka_unit_test(test_equal),
		cmocka_unit_test(test_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
