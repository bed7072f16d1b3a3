// SPDX-License-Identifier: Apache-2.0
/*
 * Numbers as people write and read them.
 */
#include <float.h>
#include <math.h>

#include "common/units.h"
#include "test/unit/test.h"

struct good {
	const char *text;
	uint64_t value;
};

static void test_duration(void **state)
{
	static const struct good good[] = {
		{"200ms", 200000000},
		{"10s", 10000000000},
		{"2m", 120000000000},
		{"1h", 3600000000000},
		{"5us", 5000},
		{"5\302\265s", 5000},
		{"7ns", 7},
		{"1.5s", 1500000000},
		{"0.25", 250000000},
		{"3", 3000000000},
		{"0", 0},
		{"0.0000000001h", 360},
		{"1.9999ns", 1},
		{"1.00000000000000000000000000009s", 1000000000},
		{"18446744073709551615ns", UINT64_MAX},
		{"18446744073.709551615s", UINT64_MAX},
	};
	static const char *const bad[] = {
		"",
		"-1s",
		"+1s",
		"s",
		"1 s",
		" 1s",
		"1s ",
		"1x",
		"1.s",
		".5s",
		"1..5s",
		"1.5.5s",
		"0x10",
		"1e3s",
		"1S",
		"infinity",
		"nan",
		"18446744073709551616ns",
		"18446744073.709551616s",
		"99999999999999999999999999h",
		"5124096h",
		"1,5s",
	};
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(good); i++) {
		if (ip_parse_duration(good[i].text, &ns) < 0)
			fail_msg("%s: %s", good[i].text, ip_error_message());
		assert_int_equal(ns, good[i].value);
	}
	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		ns = 4711;
		ip_error("none");
		if (ip_parse_duration(bad[i], &ns) != -1)
			fail_msg("'%s' was taken for a duration", bad[i]);
		assert_int_equal(ns, 4711);
		assert_error("duration");
		assert_error(bad[i]);
	}
}

static void test_size(void **state)
{
	static const struct good good[] = {
		{"100", 100},	     {"1B", 1},
		{"512k", 512 << 10}, {"64M", 64 << 20},
		{"64MB", 64 << 20},  {"64mib", 64 << 20},
		{"1GiB", 1 << 30},   {"2T", 2ull << 40},
		{"1.5k", 1536},	     {"16777215.9999999T", 18446744073709441664ull},
	};
	static const char *const bad[] = {
		"", "-1", "k", "1kk", "1 M", "1Q", "16777216T", "18446744073709551616", "1i",
	};
	uint64_t bytes;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(good); i++) {
		if (ip_parse_size(good[i].text, &bytes) < 0)
			fail_msg("%s: %s", good[i].text, ip_error_message());
		assert_int_equal(bytes, good[i].value);
	}
	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		if (ip_parse_size(bad[i], &bytes) != -1)
			fail_msg("'%s' was taken for a size", bad[i]);
		assert_error("size");
	}
}

static void test_pid(void **state)
{
	static const char *const bad[] = {
		"", "0", "-1", "+1", "1x", " 1", "1 ", "2147483648", "99999999999999999999"};
	int pid;

	(void)state;
	assert_int_equal(ip_parse_pid("1", &pid), 0);
	assert_int_equal(pid, 1);
	assert_int_equal(ip_parse_pid("2147483647", &pid), 0);
	assert_int_equal(pid, 2147483647);
	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		if (ip_parse_pid(bad[i], &pid) != -1)
			fail_msg("'%s' was taken for a process id", bad[i]);
		assert_error("process id");
	}
}

static void test_format_ns(void **state)
{
	static const struct {
		double ns;
		const char *text;
	} cases[] = {
		{0, "0 ns"},
		{0.25, "0.25 ns"},
		{9.994, "9.99 ns"},
		{9.996, "10.0 ns"},
		{10.3, "10.3 ns"},
		{99.96, "100 ns"},
		{123, "123 ns"},
		{999.4, "999 ns"},
		{999.6, "1.00 us"},
		{4560, "4.56 us"},
		{78.9e6, "78.9 ms"},
		{999.6e6, "1.00 s"},
		{1.23e9, "1.23 s"},
		{86400e9, "86400 s"},
		{1e30, "1.00e+21 s"},
		{-4560, "-4.56 us"},
		{NAN, "-"},
		{INFINITY, "-"},
		{-DBL_MAX, "-1.80e+299 s"},
	};
	char buffer[16];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++)
		assert_string_equal(ip_format_ns(cases[i].ns, buffer), cases[i].text);
}

/* What is written is read again as the same. */
static void test_format_duration(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0s"},
		{7, "7ns"},
		{1000, "1us"},
		{1001, "1001ns"},
		{1500000000, "1500ms"},
		{90000000000, "90s"},
		{600000000000, "10m"},
		{7200000000000, "2h"},
		{UINT64_MAX, "18446744073709551615ns"},
	};
	char buffer[24];
	uint64_t ns;

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		assert_string_equal(ip_format_duration(cases[i].ns, buffer), cases[i].text);
		assert_int_equal(ip_parse_duration(buffer, &ns), 0);
		assert_true(ns == cases[i].ns);
	}
}

static void test_format_size_and_count(void **state)
{
	static const struct {
		uint64_t n;
		const char *size, *count;
	} cases[] = {
		{0, "0 B", "0"},
		{999, "999 B", "999"},
		{1000, "1000 B", "1,000"},
		{1024, "1.0 KiB", "1,024"},
		{1048575, "1.0 MiB", "1,048,575"},
		{64 << 20, "64.0 MiB", "67,108,864"},
		{UINT64_MAX, "16.0 EiB", "18,446,744,073,709,551,615"},
	};
	char buffer[32];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		assert_string_equal(ip_format_size(cases[i].n, buffer), cases[i].size);
		assert_string_equal(ip_format_count(cases[i].n, buffer), cases[i].count);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duration),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_pid),
		cmocka_unit_test(test_format_ns),
		cmocka_unit_test(test_format_duration),
		cmocka_unit_test(test_format_size_and_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
