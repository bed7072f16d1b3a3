// SPDX-License-Identifier: Apache-2.0
/*
 * The JSON writer: nesting, commas, escapes, numbers.
 */
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "common/json.h"
#include "test/unit/test.h"

static struct ip_json json;
static char *text;
static size_t text_size;

static int setup(void **state)
{
	(void)state;
	ip_json_init(&json, open_memstream(&text, &text_size));
	return json.out ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

#define assert_json(expected)                                                                      \
	do {                                                                                       \
		fclose(json.out);                                                                  \
		assert_string_equal(text, expected);                                               \
	} while (0)

static void test_nesting(void **state)
{
	(void)state;
	ip_json_object(&json, NULL);
	ip_json_array(&json, "empty");
	ip_json_end_array(&json);
	ip_json_array(&json, "a");
	ip_json_uint(&json, NULL, 1);
	ip_json_object(&json, NULL);
	ip_json_end_object(&json);
	ip_json_object(&json, NULL);
	ip_json_bool(&json, "yes", true);
	ip_json_bool(&json, "no", false);
	ip_json_end_object(&json);
	ip_json_end_array(&json);
	ip_json_string(&json, "s", "x");
	ip_json_string(&json, "n", NULL);
	ip_json_end_object(&json);
	assert_json(
		"{\"empty\":[],\"a\":[1,{},{\"yes\":true,\"no\":false}],\"s\":\"x\",\"n\":null}\n");
}

static void test_one_document_a_line(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		ip_json_object(&json, NULL);
		ip_json_int(&json, "i", -i);
		ip_json_end_object(&json);
	}
	ip_json_string(&json, NULL, "top");
	assert_json("{\"i\":0}\n{\"i\":-1}\n\"top\"\n");
}

static void test_strings(void **state)
{
	(void)state;
	ip_json_object(&json, NULL);
	ip_json_string(&json, "q\"k", "\\ \" \n\t\r \001\033\177");
	ip_json_string(&json, "u", "\303\274\342\202\254\360\237\230\200");
	ip_json_string(&json, "bad", "a\377b\303");
	ip_json_string(&json, "turn", "\302\233 \342\200\256 \342\201\251");
	ip_json_end_object(&json);
	assert_json(
		"{\"q\\\"k\":\"\\\\ \\\" \\n\\t\\r "
		"\\u0001\\u001b\\u007f\",\"u\":\"\303\274\342\202\254\360\237\230\200\",\"bad\":"
		"\"a\357\277\275b\357\277\275\",\"turn\":\"\\u009b \\u202e \\u2069\"}\n");
}

static void write_numbers(void)
{
	ip_json_array(&json, NULL);
	ip_json_uint(&json, NULL, UINT64_MAX);
	ip_json_int(&json, NULL, INT64_MIN);
	ip_json_double(&json, NULL, 0.1);
	ip_json_double(&json, NULL, 1.0 / 3);
	ip_json_double(&json, NULL, -1e300);
	ip_json_double(&json, NULL, 12345678);
	ip_json_double(&json, NULL, NAN);
	ip_json_double(&json, NULL, -INFINITY);
	ip_json_end_array(&json);
}

#define NUMBERS                                                                                    \
	"[18446744073709551615,-9223372036854775808,0.1,0.3333333333333333,-1e+300,12345678,null," \
	"null]\n"

static void test_numbers(void **state)
{
	(void)state;
	write_numbers();
	assert_json(NUMBERS);
}

static void test_locale(void **state)
{
	static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ps_AF"};
	const char *set = NULL;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(names) && !set; i++)
		set = setlocale(LC_NUMERIC, names[i]);
	if (!set) {
		fclose(json.out);
		skip(); /* no locale with another decimal point on this machine */
	}
	write_numbers();
	setlocale(LC_NUMERIC, "C");
	assert_json(NUMBERS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nesting, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_document_a_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_locale, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
