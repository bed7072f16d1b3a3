/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a point's values: of whatever text its arguments have in the source, and of what is
 * no such text.
 */
#include <stdio.h>

#include "common/elf/point_names.h"
#include "common/trace/values.h"
#include "test/unit/test.h"

/* The names, with a blank behind each; "?" for none. */
static const char *names_of(const char *text, unsigned n)
{
	static char all[IP_POINT_ARGS_MAX * (IP_POINT_NAME_MAX + 2)];
	struct ip_point_names names;

	ip_point_names_make(text, n, &names);
	*all = '\0';
	for (unsigned i = 0; i < n; i++) {
		strcat(all, *names.names[i] ? names.names[i] : "?");
		strcat(all, " ");
	}
	return all;
}

static void test_names(void **state)
{
	static const struct {
		unsigned n;
		const char *text, *names;
	} cases[] = {
		{1, "id", "id "},
		{2, "r->id, r -> len", "r->id r->len "},
		{2, "f(a, b), (a, b)", "f(a_b) (a_b) "},
		{2, "a[i, j], k", "? ? "}, /* three to the preprocessor */
		{1, "n % 16", "n%16 "},
		{1, "a | b & ~c ? x : y", "a|b&~c?x:y "},
		{1, "sizeof  x", "sizeof_x "},
		{1, "(const char *)p", "(const_char*)p "},
		{2, "\"a, b\", ','", "'a__b' '_' "},
		{2, "\"\\\",\", '\\''", "'_'_' '_'' "},
		{2, "1'000'000, x", "1'000'000 x "},
		{2, "1e-5 + .5, 0x1p+3", "1e-5+.5 0x1p+3 "},
		{3, "x, x, x", "x x#2 x#3 "},
		{2, "'#', x", "'#' x "},
		{1, "std::max<int>(a, b)", "std::max<int>(a_b) "},
		{1, "[&] { return a == b; }()", "[&]_return_a__b__() "},
		{2, "IPROBE_STRING(u->data), IPROBE_HEX (flags & (1 << n))",
		 "u->data flags&(1<<n) "},
		{1, "IPROBE_HEX(a) + 1", "IPROBE_HEX(a)+1 "},
		{1, "((const char *)(const void *)(u->data))", "u->data "},
		{1, "((const void *)((long unsigned int)(f(x)) & (sizeof(((void)0, (f(x))))))",
		 "f(x) "},
		{1, "((const void *)((unsigned long)(x) & (sizeof\1", "x "},
		{1, "((const void *)((unsigned long)(f(x, y\1", "f(x_y... "},
		{3, "a, bc, d\1", "a bc d... "},
		{3, "a, bc\1", "a bc... ? "},
		{1, "a, b\1", "? "},
		{1, "\1", "? "},
		{1, "", "? "},
		{2, "a", "? ? "},
		{1, "a, b", "? "},
		{0, "a", ""},
		{2, ",", "? ? "},
		{2, "a,", "a ? "},
		{2, "a\t\n\x1b[31m, \xc3\xa4", "a_[31m \xc3\xa4 "},
		{1, "a = b; {c} @ \\ `", "a_b__c____ "},
		{2, "a), b", "a) b "},
		{2, "\"a, b", "? ? "},
		{1, "\"a\\", "'a_ "},
		/* no UTF-8 */
		{3, "\xca\xca, \xca, \xca\xca", "\xca\xca \xca \xca\xca#2 "},
		{3, "\xca, \xca, \xca", "\xca \xca#2 \xca#3 "},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_string_equal(names_of(cases[i].text, cases[i].n), cases[i].names);
}

/* A long name keeps both ends, and stays a name of whole characters. */
static void test_long_names(void **state)
{
	char text[4096], want[128];
	struct ip_point_names names;

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, "begin", 5);
	memcpy(text + 95, "end, ", 5);
	memcpy(text + 100, text, 98);
	text[198] = '\0';
	ip_point_names_make(text, 2, &names);
	assert_int_equal(strlen(names.names[0]), IP_POINT_NAME_MAX);
	assert_memory_equal(names.names[0], "beginxxx", 8);
	assert_non_null(strstr(names.names[0], "xxx...xxx"));
	assert_string_equal(names.names[0] + IP_POINT_NAME_MAX - 6, "xxxend");
	assert_int_equal(strlen(names.names[1]), IP_POINT_NAME_MAX);
	assert_memory_equal(names.names[1], names.names[0], IP_POINT_NAME_MAX - 2);
	assert_string_equal(names.names[1] + IP_POINT_NAME_MAX - 2, "#2");

	for (size_t i = 0; i < 100; i++)
		memcpy(text + 2 * i, "\xc3\xa4", 2);
	text[200] = '\0';
	ip_point_names_make(text, 1, &names);
	snprintf(want, sizeof(want), "%.30s...%.30s", text, text);
	assert_string_equal(names.names[0], want);

	memset(text, 'y', sizeof(text)); /* without an end that could be found */
	text[sizeof(text) - 1] = '\0';
	ip_point_names_make(text, 1, &names);
	assert_int_equal(strlen(names.names[0]), IP_POINT_NAME_MAX);
	assert_string_equal(names.names[0] + IP_POINT_NAME_MAX - 4, "y...");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
