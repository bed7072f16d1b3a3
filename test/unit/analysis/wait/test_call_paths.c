/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which path a system call was given: none is taken for that of another call.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "test/unit/test.h"

#define SECOND 2000000000ull /* ticks */

static const char *find(const struct ip_call_paths *paths, int32_t tid, unsigned number,
			unsigned argument, uint64_t address, uint64_t begin, uint64_t end)
{
	const struct ip_call_path key = {
		.tid = tid, .number = number, .argument = argument, .address = address};

	return ip_call_paths_find(paths, &key, begin, end);
}

static void parse(const char *text, char **ret_memory, struct ip_descriptors *ret)
{
	*ret = (struct ip_descriptors){0};
	*ret_memory = strdup(text);
	assert_int_equal(ip_descriptors_parse(*ret_memory, ret), 0);
}

static void test_the_call(void **state)
{
	char *memory;
	struct ip_descriptors d;

	/* two threads that use one address, two calls one after the other, a call with two paths */
	parse("1000\t7\t4\tpath\t0 10 /first\n"
	      "1005\t8\t4\tpath\t0 10 /other\n"
	      "2000\t7\t4\tpath\t0 10 /second\n"
	      "500\t7\t3\tfile\t/descriptor\n"
	      "3000\t7\t82\tpath\t0 20 /from\n"
	      "3000\t7\t82\tpath\t1 30 /to\n"
	      "4000\t7\t4\tpath\t0 10\n",
	      &memory, &d);
	assert_int_equal(d.invalid, 0);
	assert_int_equal(d.n, 1);
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, 900, 1001), "/first");
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, 900, 998), "/first");
	assert_string_equal(find(&d.paths, 8, SYS_stat, 0, 0x10, 900, 1001), "/other");
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, 1100, 1999), "/second");
	assert_string_equal(find(&d.paths, 7, SYS_rename, 0, 0x20, 2100, 3000), "/from");
	assert_string_equal(find(&d.paths, 7, SYS_rename, 1, 0x30, 2100, 3000), "/to");
	/* of another call, address, thread or time; one that could not be read */
	assert_null(find(&d.paths, 7, SYS_lstat, 0, 0x10, 900, 1001));
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x11, 900, 1001));
	assert_null(find(&d.paths, 7, SYS_stat, 1, 0x10, 900, 1001));
	assert_null(find(&d.paths, 9, SYS_stat, 0, 0x10, 900, 1001));
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x10, 2100, 2500));
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x10, 3500, 3999));
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x10, 5000, 5100));
	ip_descriptors_clear(&d);
	free(memory);
}

static void test_gaps(void **state)
{
	char *memory;
	struct ip_descriptors d;

	/* from 1 s to 2 s, and from 3 s to 4 s */
	parse("1000000000\t0\t0\tpath\t0 77359400\n"
	      "500000000\t7\t4\tpath\t0 10 /before\n"
	      "1500000000\t7\t4\tpath\t0 10 /within\n"
	      "2500000000\t7\t4\tpath\t0 10 /between\n"
	      "3000000000\t0\t0\tpath\t0 ee6b2800\n"
	      "4500000000\t7\t4\tpath\t0 10 /behind\n",
	      &memory, &d);
	assert_int_equal(d.invalid, 0);
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, SECOND / 4 - 9, SECOND / 4),
			    "/before");
	/* one of these calls has no path: which one, nobody knows */
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x10, 1499999999, 1500000000));
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, 2499999999, 2500000000),
			    "/between");
	assert_null(find(&d.paths, 7, SYS_stat, 0, 0x10, 2499999999, 3500000000));
	assert_string_equal(find(&d.paths, 7, SYS_stat, 0, 0x10, 4499999999, 4500000000),
			    "/behind");
	ip_descriptors_clear(&d);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_call),
		cmocka_unit_test(test_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
