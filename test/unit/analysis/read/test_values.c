/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signatures, and values in words: every type, and what does not fit together.
 */
#include <stdio.h>
#include <stdlib.h>

#include "analysis/read/session.h"
#include "analysis/read/values.h"
#include "test/unit/test.h"

#define HEAD "iprobe-session\t1\ntsc_hz\t1000\n"

static char *print(const char *signature, const uint64_t *payload)
{
	char *copy = strdup(signature), *text = NULL;
	struct ip_signature parsed;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(ip_signature_parse(copy, &parsed), 0);
	ip_values_print(out, &parsed, payload);
	fclose(out);
	free(copy);
	return text;
}

static char *json(const char *signature, const uint64_t *payload, bool *ret_cut)
{
	char *copy = strdup(signature), *text = NULL;
	struct ip_signature parsed;
	struct ip_json j;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	assert_int_equal(ip_signature_parse(copy, &parsed), 0);
	ip_json_init(&j, out);
	ip_json_object(&j, NULL);
	ip_values_json(&j, &parsed, payload);
	ip_json_end_object(&j);
	fclose(out);
	*ret_cut = ip_values_cut(&parsed, payload);
	free(copy);
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static uint64_t word_of(const char *bytes)
{
	uint64_t word = 0;

	memcpy(&word, bytes, strlen(bytes) < 8 ? strlen(bytes) : 8);
	return word;
}

static uint64_t bits(double d)
{
	uint64_t word;

	memcpy(&word, &d, sizeof(word));
	return word;
}

static void check(const char *signature, unsigned missing, const uint64_t *words, unsigned n,
		  const char *text, const char *document)
{
	uint64_t payload[64] = {IP_PAYLOAD_WORD(n, missing, 1)};
	char *printed;
	bool cut;

	memcpy(payload + 1, words, n * sizeof(*words));
	printed = print(signature, payload);
	assert_string_equal(printed, text);
	free(printed);
	printed = json(signature, payload, &cut);
	assert_string_equal(printed, document);
	assert_int_equal(cut, !!strstr(text, "\"..."));
	free(printed);
}

static void test_types(void **state)
{
	const uint64_t integers[] = {
		(uint64_t)-3, 0xffffffffffffff80, 65535, UINT64_MAX, 'A', 256, 7};
	const uint64_t enums[] = {2, (uint64_t)-1, 9};
	const uint64_t pointers[] = {0, 0x7fff0010};
	const uint64_t hexes[] = {0, (uint64_t)-1, 0xffffffffffffff80, 1ull << 63};
	uint64_t floats[] = {0,	     bits(-0.1),	 bits(1e300), 0xc000000000000000,
			     0x4000, 0x8000000000000000, 0x7fff};
	const float tenth = 0.1f;

	(void)state;
	memcpy(floats, &tenth, sizeof(tenth));
	check("i4:a i1 u2:c u8:d c:e b:f b:g", 0, integers, 7,
	      "a=-3, -128, c=65535, d=18446744073709551615, e='A' (65), f=false, g=true",
	      "{\"a\":-3,\"arg2\":-128,\"c\":65535,\"d\":18446744073709551615,\"e\":65,\"f\":false,"
	      "\"g\":true}");
	check("e4:mode{RED=0,BLUE=2} e4:sign{NONE=-1} e8:flags{A=1}", 0, enums, 3,
	      "mode=BLUE, sign=NONE, flags=9", "{\"mode\":\"BLUE\",\"sign\":\"NONE\",\"flags\":9}");
	check("p:a p:b -:s", 0, pointers, 2, "a=NULL, b=0x7fff0010, s={...}",
	      "{\"a\":\"0x0\",\"b\":\"0x7fff0010\",\"s\":\"{...}\"}");
	check("i4:retval", 0, integers, 1, "-3", "{\"retval\":-3}");
	check("h8:a h4:b h1 h8:d", 0, hexes, 4, "a=0x0, b=0xffffffff, 0x80, d=0x8000000000000000",
	      "{\"a\":\"0x0\",\"b\":\"0xffffffff\",\"arg3\":\"0x80\","
	      "\"d\":\"0x8000000000000000\"}");
	check("f4:a f8:b f8 x:c x:d", 0, floats, 7, "a=0.1, b=-0.1, 1e+300, c=3, d=inf",
	      "{\"a\":0.10000000149011612,\"b\":-0.1,\"arg3\":1e+300,\"c\":3,\"d\":\"inf\"}");
}

static void test_strings(void **state)
{
	const uint64_t words[] = {3,
				  word_of("a\"\n"),
				  IP_STRING_NULL,
				  IP_STRING_UNREADABLE,
				  0x10,
				  0,
				  IP_STRING_CUT | 10,
				  word_of("\xc3\xa9\xff\x1b"),
				  word_of("yz")};
	/* é, a stray byte, escape, then zeros of the first word, then yz: a string may hold what it
	 * likes */
	(void)state;
	check("s:a s:b s:c s:d s:e", 0, words, 9,
	      "a=\"a\\\"\\n\", b=NULL, c=0x10 (unreadable), d=\"\", "
	      "e=\"\xc3\xa9\\xff\\x1b\\0\\0\\0\\0yz\"...",
	      "{\"a\":\"a\\\"\\n\",\"b\":null,\"c\":{\"unreadable\":\"0x10\"},\"d\":\"\",\"e\":"
	      "\"\xc3\xa9\xef\xbf\xbd\\u001b\"}");
}

/* A NUL before a digit would read on as an octal number. */
static void test_nuls(void **state)
{
	/* 1, NUL, 8, 9, NUL, x, NUL */
	const uint64_t words[] = {7, 0x780039380031, 0};

	(void)state;
	check("s:a c:b", 0, words, 3, "a=\"1\\x0089\\0x\\0\", b='\\0' (0)",
	      "{\"a\":\"1\",\"b\":0}");
}

static void test_missing(void **state)
{
	const uint64_t words[] = {0, 5};

	(void)state;
	check("i4:a i4:b", 1, words, 2, "a=?, b=5", "{\"a\":null,\"b\":5}");
	/* what is not recorded is not counted */
	check("-:s i4:a - i4:b", 2, words, 2, "s={...}, a=0, {...}, b=?",
	      "{\"s\":\"{...}\",\"a\":0,\"arg3\":\"{...}\",\"b\":null}");
	/* fewer words than the signature asks for */
	check("i4:a i4:b i4:c", 0, words, 2, "a=0, b=5, ...", "{\"a\":0,\"b\":5}");
	check("x:a", 0, words, 1, "...", "{}");
}

static void test_long_string(void **state)
{
	const uint64_t words[] = {1000, 1, 'a'};

	(void)state;
	check("i4:n s:a", 0, words, 3, "n=1000, a=\"a\"", "{\"n\":1000,\"a\":\"a\"}");
	/* longer than what there is */
	check("s:a", 0, words, 3, "...", "{}");
}

static void test_bad_signatures(void **state)
{
	static const char *const texts[] = {
		"",   " ",     "i3",	   "q:a",   "i4:a  i4:b",
		"f2", "i44:a", "e4:a{A=1", ":name", "b b b b b b b b b b b b b b b b b"};
	struct ip_signature s;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		char text[80];

		snprintf(text, sizeof(text), "%s", texts[i]);
		if (ip_signature_parse(text, &s) == 0)
			fail_msg("taken: %s", texts[i]);
	}
}

static void test_session(void **state)
{
	const uint64_t payload[] = {IP_PAYLOAD_WORD(1, 0, 3), 5}, other = IP_PAYLOAD_WORD(0, 0, 2),
		       beyond = IP_PAYLOAD_WORD(0, 0, 4);
	static const char text[] = HEAD "signature\t3\ti4:fd\nsignature\t2\tsomething new\n";
	struct ip_recording *s;

	(void)state;
	assert_int_equal(ip_recording_parse("session", text, strlen(text), &s), 0);
	assert_int_equal(ip_recording_signature(s, payload)->n, 1);
	assert_string_equal(ip_recording_signature(s, payload)->values[0].name, "fd");
	assert_null(ip_recording_signature(s, &other));
	assert_null(ip_recording_signature(s, &beyond));
	assert_null(ip_recording_signature(s, NULL));
	ip_recording_destroy(s);
	assert_int_equal(
		ip_recording_parse("session", HEAD "signature\t0\ti4\n", strlen(HEAD) + 15, &s),
		-1);
	assert_error("a signature needs a number");
	assert_int_equal(
		ip_recording_parse("session", HEAD "signature\t99999\ti4\n", strlen(HEAD) + 19, &s),
		-1);
	assert_error("out of range");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types),	    cmocka_unit_test(test_strings),
		cmocka_unit_test(test_nuls),	    cmocka_unit_test(test_missing),
		cmocka_unit_test(test_long_string), cmocka_unit_test(test_bad_signatures),
		cmocka_unit_test(test_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
