// SPDX-License-Identifier: Apache-2.0
/*
 * The first names of a list, in a message.
 */
#include "common/cleanup.h"
#include "common/names/name_list.h"

#include <stdio.h>

#include "test/unit/test.h"

static const char *text(const struct ip_name_list *list)
{
	static char buffer[IP_NAME_LIST_TEXT];

	return ip_name_list_text(list, buffer);
}

static void test_first_ones(void **state)
{
	struct ip_name_list list = {0};

	(void)state;
	assert_string_equal(text(&list), "");
	ip_name_list_add(&list, "parse");
	assert_string_equal(text(&list), "parse");
	ip_name_list_add(&list, "_ZN1a3lexEi");
	ip_name_list_add(&list, "scan");
	assert_string_equal(text(&list), "parse, a::lex, scan");
	ip_name_list_add(&list, "more");
	assert_string_equal(text(&list), "parse, a::lex, scan, ...");
	assert_int_equal(list.n, 4);
}

static void test_remove(void **state)
{
	struct ip_name_list list = {0};

	(void)state;
	ip_name_list_remove(&list, "none");
	assert_int_equal(list.n, 0);
	for (const char *const *name = (const char *const[]){"a", "b", "c", "d", NULL}; *name;
	     name++)
		ip_name_list_add(&list, *name);
	ip_name_list_remove(&list, "d"); /* it was not shown */
	assert_string_equal(text(&list), "a, b, c");
	ip_name_list_remove(&list, "a");
	assert_string_equal(text(&list), "b, c");
	ip_name_list_remove(&list, "c");
	ip_name_list_remove(&list, "b");
	assert_string_equal(text(&list), "");
	assert_int_equal(list.n, 0);
}

/* Of two processes of one program: a name is shown once. */
static void test_join(void **state)
{
	struct ip_name_list a = {0}, b = {0};

	(void)state;
	ip_name_list_add(&a, "parse");
	ip_name_list_add(&b, "parse");
	ip_name_list_add(&b, "lex");
	ip_name_list_join(&a, &b);
	assert_int_equal(a.n, 3);
	assert_string_equal(text(&a), "parse, lex, ...");
}

static void test_long_names(void **state)
{
	struct ip_name_list list = {0};
	char name[1000];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		memset(name, 'a' + i, sizeof(name) - 1);
		name[sizeof(name) - 1] = '\0';
		ip_name_list_add(&list, name);
	}
	for (unsigned i = 0; i < IP_NAMES_TOLD; i++) {
		assert_int_equal(strlen(list.names[i]), sizeof(list.names[i]) - 1);
		assert_string_equal(list.names[i] + sizeof(list.names[i]) - 4, "...");
	}
	assert_true(strlen(text(&list)) < IP_NAME_LIST_TEXT);
	assert_string_equal(text(&list) + strlen(text(&list)) - 5, ", ...");
}

/* As reports show it: without parameters, default arguments and tags of an ABI. */
static void test_for_people(void **state)
{
	static const char *const names[][2] = {
		{"_ZN4shop6renderB5cxx11ERKi", "shop::render"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int>::push_back"},
		{"parse", "parse"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		_cleanup_free_ char *name = ip_name_for_people(names[i][0]);

		assert_string_equal(name, names[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_ones), cmocka_unit_test(test_remove),
		cmocka_unit_test(test_join),	   cmocka_unit_test(test_long_names),
		cmocka_unit_test(test_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
