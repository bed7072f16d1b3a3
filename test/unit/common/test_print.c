// SPDX-License-Identifier: Apache-2.0
/*
 * Printing for people: what printf() does, but for arguments that would steer a terminal.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/print.h"
#include "test/unit/test.h"

static char *text;
static size_t text_size;
static FILE *out;

static int setup(void **state)
{
	(void)state;
	out = open_memstream(&text, &text_size);
	return out ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	free(text);
	text = NULL;
	return 0;
}

/* One call of each, which must agree. */
#define assert_same(...)                                                                           \
	do {                                                                                       \
		char expected[1024];                                                               \
                                                                                                   \
		rewind(out);                                                                       \
		ip_print(out, __VA_ARGS__);                                                        \
		fflush(out);                                                                       \
		snprintf(expected, sizeof(expected), __VA_ARGS__);                                 \
		assert_int_equal(text_size, strlen(expected));                                     \
		assert_memory_equal(text, expected, text_size);                                    \
	} while (0)

static void test_as_printf(void **state)
{
	(void)state;
	assert_same("plain\n\ttext 100 %%");
	assert_same("%d %u %x %X %o %c|%5d|%-5d|%05d|%+d", -1, 2u, 0xabu, 0xcdu, 8u, 'x', 3, 4, 5,
		    6);
	assert_same("%ld %lu %lld %llu %zu %#lx %016lx", -1l, ~0ul, -1ll, ~0ull, sizeof(int),
		    0xfful, 1ul << 63);
	assert_same("%" PRIu64 " %8" PRIu64 " %09" PRIu64, UINT64_MAX, (uint64_t)7, (uint64_t)8);
	assert_same("%f %.2f %6.1f %g %.3g %9.3g %e", 1.5, 2.25, 3.5, 1e9, 1.0 / 3, 1e-5, 1e10);
	assert_same("%*d|%-*d|%.*f|%*.*f", 6, 1, 6, 2, 2, 3.14159, 8, 3, 2.71828);
	assert_same("[%s] [%8s] [%-8s] [%.2s] [%.*s] [%*s] [%-*s] [%*s]", "abc", "abc", "abc",
		    "abc", 1, "abc", 6, "abc", 6, "abc", -6, "abc");
	assert_same("%*.0u%8u", 0, 0u, 42u);
	assert_same("%hhu %hd %p", (unsigned char)200, (short)7, (void *)0x1234);
	assert_same("%s%s%s", "", "gr\303\274n", "\342\202\254");
	fclose(out);
}

#define assert_prints(expected, ...)                                                               \
	do {                                                                                       \
		rewind(out);                                                                       \
		ip_print(out, __VA_ARGS__);                                                        \
		fflush(out);                                                                       \
		assert_int_equal(text_size, strlen(expected));                                     \
		assert_memory_equal(text, expected, text_size);                                    \
	} while (0)

static void test_cleans(void **state)
{
	const char unended[3] = {'a', '\033', 'b'};

	(void)state;
	assert_prints("a\\x0ab\\x0d\\x1b[1m\\x07\\x7f\n", "%s\n", "a\nb\r\033[1m\a\177");
	assert_prints("\\u{009b}0m \\u{202e} \\xff", "%s", "\302\2330m \342\200\256 \377");
	assert_prints("\033[1mours \\x1b\033[m", "\033[1mours %s\033[m", "\033");
	assert_prints("   \\x1b|\\x1b   |\\x1b", "%7s|%-7s|%c", "\033", "\033", '\033');
	assert_prints("a\\x1b", "%.*s", 2, unended);
	assert_prints("a\\x1bb", "%.3s", unended);
	assert_prints("\\xe2", "%.1s", "\342\202\254");
	assert_prints("(null)", "%s", getenv("IPROBE_NOT_SET"));
	fclose(out);
}

static void test_lines(void **state)
{
	(void)state;
	ip_print_lines(out, "one\n\ttwo\r\033[2J\342\200\256\n");
	fclose(out);
	assert_string_equal(text, "one\n\ttwo\\x0d\\x1b[2J\\u{202e}\n");
}

static void test_long_text(void **state)
{
	static char many[100001];
	char cut[8];

	(void)state;
	memset(many, '\033', sizeof(many) - 1);
	ip_print(out, "%s", many);
	fclose(out);
	assert_int_equal(text_size, 400000);
	assert_int_equal(strspn(text, "\\x1b"), 400000);
	assert_int_equal(ip_escape(cut, sizeof(cut), "ab\033\033"), 10);
	assert_string_equal(cut, "ab\\x1b\\");
	assert_int_equal(ip_escape(NULL, 0, "\n"), 4);
}

static void test_in_place(void **state)
{
	char name[] = "a\033b\302\233c\342\200\256d\377e\303\274";

	(void)state;
	ip_clean(name);
	assert_string_equal(name, "a?b??c???d?e\303\274");
	fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_printf, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cleans, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lines, setup, teardown),
		cmocka_unit_test_setup_teardown(test_long_text, setup, teardown),
		cmocka_unit_test_setup_teardown(test_in_place, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
