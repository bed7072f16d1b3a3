/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of paths, and which arguments are paths.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/arch/syscalls.h"
#include "common/trace/call_path.h"
#include "test/unit/test.h"

static void check_line(const struct ip_call_path *path, const char *line)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	struct ip_call_path got;

	assert_non_null(out);
	assert_int_equal(ip_call_path_write(out, path), strlen(line) + 1);
	fclose(out);
	assert_int_equal(text[size - 1], '\n');
	text[size - 1] = '\0';
	assert_string_equal(text, line);
	assert_true(ip_call_path_parse(text, &got));
	assert_int_equal(got.tsc, path->tsc);
	assert_int_equal(got.address, path->address);
	assert_int_equal(got.tid, path->tid);
	assert_int_equal(got.number, path->number);
	assert_int_equal(got.argument, path->argument);
	if (path->text)
		assert_true(got.text && strlen(got.text) == strlen(path->text));
	else
		assert_null(got.text);
	free(text);
}

static void test_lines(void **state)
{
	struct ip_call_path path = {.tsc = 1234567890123,
				    .address = 0x7ffc00000010,
				    .tid = 77,
				    .number = SYS_renameat2,
				    .argument = 3,
				    .text = "/a b/c"};

	check_line(&path, "1234567890123\t77\t316\tpath\t3 7ffc00000010 /a b/c");
	path.text = "/a\tb\nc\x7f\xc3\xa4";
	check_line(&path, "1234567890123\t77\t316\tpath\t3 7ffc00000010 /a?b?c?\xc3\xa4");
	path.text = ""; /* a path as any other */
	check_line(&path, "1234567890123\t77\t316\tpath\t3 7ffc00000010 ");
	path.text = NULL;
	check_line(&path, "1234567890123\t77\t316\tpath\t3 7ffc00000010");
}

static void test_what_is_none(void **state)
{
	static const char *const lines[] = {"",
					    "1\t2\t3\tfile\t/x",
					    "1\t2\t3\tpath\t",
					    "1\t2\t3\tpath\t6 10 /x",
					    "1\t2\t3\tpath\t0 zz",
					    "1\t-2\t3\tpath\t0 10 /x",
					    "1\t2\t3\tpath\t0 10x",
					    "1\t2\t3\tpaths\t0 10 x"};
	struct ip_call_path got;

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_false(ip_call_path_parse(lines[i], &got));
}

static void test_arguments(void **state)
{
	static const struct {
		unsigned number, paths;
	} calls[] = {{SYS_open, 1},	  {SYS_openat, 2},
		     {SYS_openat2, 2},	  {SYS_stat, 1},
		     {SYS_newfstatat, 2}, {SYS_statx, 2},
		     {SYS_rename, 3},	  {SYS_renameat2, 2 | 8},
		     {SYS_linkat, 2 | 8}, {SYS_symlinkat, 1 | 4},
		     {SYS_mount, 3},	  {SYS_umount2, 1},
		     {SYS_getxattr, 1},	  {SYS_fgetxattr, 0},
		     {SYS_execve, 1},	  {SYS_execveat, 2},
		     {SYS_readlink, 1},	  {SYS_sethostname, 0},
		     {SYS_uname, 0},	  {SYS_read, 0},
		     {SYS_chdir, 1},	  {SYS_unlinkat, 2},
		     {100000, 0}};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		assert_int_equal(ip_syscall_path_arguments(calls[i].number), calls[i].paths);
	for (unsigned i = 0; i < ip_syscall_end(); i++)
		assert_true(__builtin_popcount(ip_syscall_path_arguments(i)) <= 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_what_is_none),
		cmocka_unit_test(test_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
