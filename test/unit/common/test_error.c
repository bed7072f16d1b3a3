// SPDX-License-Identifier: Apache-2.0
/*
 * The error line: what is kept of it, per thread, and that nothing in it can steer a terminal.
 */
#include <errno.h>
#include <pthread.h>

#include "test/unit/test.h"

static void *other_thread(void *arg)
{
	(void)arg;
	assert_string_equal(ip_error_message(), "");
	ip_error("another");
	return NULL;
}

static void test_record(void **state)
{
	pthread_t thread;

	(void)state;
	assert_string_equal(ip_error_message(), "");
	errno = EAGAIN;
	assert_int_equal(ip_error("%s: is %d", "a", 7), -1);
	assert_int_equal(errno, EAGAIN);
	assert_string_equal(ip_error_message(), "a: is 7");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
	pthread_join(thread, NULL);
	assert_string_equal(ip_error_message(), "a: is 7");
}

static void test_errno(void **state)
{
	(void)state;
	errno = ENOENT;
	assert_int_equal(ip_error_errno("%s", "/x"), -1);
	assert_string_equal(ip_error_message(), "/x: No such file or directory");
	assert_int_equal(errno, ENOENT);
}

static void test_prefix(void **state)
{
	(void)state;
	ip_error("inner");
	assert_int_equal(ip_error_prefix("%s %d", "outer", 1), -1);
	assert_string_equal(ip_error_message(), "outer 1: inner");
	/* its own line as an argument */
	ip_error("again: %s", ip_error_message());
	assert_string_equal(ip_error_message(), "again: outer 1: inner");
}

static void test_control_characters(void **state)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{"a\nb\tc", "a\\x0ab\\x09c"},
		{"\033[31mred", "\\x1b[31mred"},
		{"del\177", "del\\x7f"},
		{"gr\303\274n \342\202\254 \360\237\230\200",
		 "gr\303\274n \342\202\254 \360\237\230\200"},
		{"c1 \302\233m", "c1 \\u{009b}m"},
		{"stray \200\377", "stray \\x80\\xff"},
		{"cut \342\202", "cut \\xe2\\x82"},
		{"overlong \300\257", "overlong \\xc0\\xaf"},
		{"overlong \340\200\257", "overlong \\xe0\\x80\\xaf"},
		{"surrogate \355\240\200", "surrogate \\xed\\xa0\\x80"},
		{"beyond \364\220\200\200", "beyond \\xf4\\x90\\x80\\x80"},
		{"turned \342\200\256 \342\201\246 \330\234",
		 "turned \\u{202e} \\u{2066} \\u{061c}"},
		{"line \342\200\250 mark \357\273\277", "line \\u{2028} mark \\u{feff}"},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		ip_error("%s", cases[i].in);
		assert_string_equal(ip_error_message(), cases[i].out);
	}
}

static void test_long(void **state)
{
	static char text[100000];
	size_t n;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	ip_error("%s", text);
	n = strlen(ip_error_message());
	assert_true(n > 4096 && n < sizeof(text) / 2);
	assert_string_equal(ip_error_message() + n - 4, "x...");
	ip_error_prefix("%s", text);
	assert_int_equal(strlen(ip_error_message()), n);
	errno = EIO;
	ip_error_errno("%s", text);
	assert_int_equal(strlen(ip_error_message()), n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_record), cmocka_unit_test(test_errno),
		cmocka_unit_test(test_prefix), cmocka_unit_test(test_control_characters),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
