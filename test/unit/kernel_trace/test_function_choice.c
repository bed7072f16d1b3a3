/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the kernel that patterns choose, of made-up lists.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/trace/kernel_format.h"
#include "kernel_trace/function_choice.h"
#include "test/unit/test.h"

static const char available[] = "vfs_write\n"
				"vfs_read\n"
				"vfs_readv.isra.0\n"
				"__ftrace_invalid_address___64\n"
				"twice\n"
				"ext4_read [ext4]\n"
				"twice\n"
				"also [one]\n"
				"also [two]\n"
				"last";
static const char symbols[] = "0000000000000000 T vfs_read\n"
			      "0000000000000000 t closed_one\n"
			      "0000000000000000 D closed_data\n"
			      "0000000000000000 t closed_two\t[ext4]\n";

static char path[] = "/tmp/test-symbols-XXXXXX";

static int setup(void **state)
{
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, symbols, strlen(symbols)), strlen(symbols));
	close(fd);
	return 0;
}

static int teardown(void **state)
{
	return unlink(path);
}

/* Returns the chosen functions as "name[module] name", and the note in *ret_note. */
static const char *choose(const char *patterns, char **ret_note)
{
	static char text[1024];
	struct ip_kernel_functions f;
	char *list = strdup(available);
	int done = ip_function_choice_make(patterns, list, path, &f, ret_note);

	text[0] = '\0';
	for (size_t i = 0; i < f.n; i++) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, "%s%s%s%s%s", n ? " " : "", f.items[i].name,
			 *f.items[i].module ? "[" : "", f.items[i].module,
			 *f.items[i].module ? "]" : "");
	}
	ip_kernel_functions_clear(&f);
	free(list);
	return done < 0 ? NULL : text;
}

static void check(const char *patterns, const char *chosen, const char *note)
{
	char *said;

	assert_string_equal(choose(patterns, &said), chosen);
	if (note)
		assert_non_null(said);
	else
		assert_null(said);
	if (note && !strstr(said, note))
		fail_msg("%s: %s", patterns, said);
	free(said);
}

static void refuse(const char *patterns, const char *why)
{
	char *said = NULL;

	assert_null(choose(patterns, &said));
	if (!strstr(ip_error_message(), why))
		fail_msg("%s: %s", patterns, ip_error_message());
	free(said);
}

static void test_patterns(void **state)
{
	check("vfs_read", "vfs_read", NULL);
	check("vfs_*", "vfs_read vfs_readv.isra.0 vfs_write", NULL);
	check("vfs_*,!*write", "vfs_read vfs_readv.isra.0", NULL);
	check("vfs_readv", "vfs_readv.isra.0", NULL); /* the compiler's suffixes do not count */
	check("lib:ext4,last", "ext4_read[ext4] last", NULL);
	/* of modules they can be told apart */
	check("also", "also[one] also[two]", NULL);
}

static void test_what_is_not_chosen(void **state)
{
	check("vfs_read,twice", "vfs_read", "several functions are called twice");
	check("vfs_read,closed_*", "vfs_read",
	      "closed_one, closed_two cannot be traced (notrace, or written in assembler)");
	check("vfs_read,vfs_reed", "vfs_read", "no function is called vfs_reed (nearest: vfs_read");
	check("vfs_read,!absent", "vfs_read", "no function is called !absent");
}

static void test_nothing(void **state)
{
	refuse("closed_one", "closed_one cannot be traced");
	refuse("closed_data", "no function is called closed_data");
	refuse("twice", "several functions are called twice");
	refuse("__ftrace_invalid*", "no function is called __ftrace_invalid*");
	refuse("vfs_*,", "");
}

static void test_too_many(void **state)
{
	struct ip_kernel_functions f;
	char *list = NULL, *note = NULL, wanted[64];
	size_t size;
	FILE *out = open_memstream(&list, &size);

	for (unsigned i = 0; i < IP_KERNEL_FUNCTIONS_MAX; i++)
		fprintf(out, "f%u\n", i);
	fflush(out);
	assert_int_equal(ip_function_choice_make("*", list, path, &f, &note), 0);
	assert_int_equal(f.n, IP_KERNEL_FUNCTIONS_MAX);
	ip_kernel_functions_clear(&f);
	fclose(out);
	free(list);

	out = open_memstream(&list, &size);
	for (unsigned i = 0; i <= IP_KERNEL_FUNCTIONS_MAX; i++)
		fprintf(out, "f%u\n", i);
	fclose(out);
	assert_int_equal(ip_function_choice_make("f*", list, path, &f, &note), -1);
	snprintf(wanted, sizeof(wanted), "these are %u functions", IP_KERNEL_FUNCTIONS_MAX + 1);
	assert_non_null(strstr(ip_error_message(), wanted));
	ip_kernel_functions_clear(&f);
	free(list);
	free(note);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_what_is_not_chosen),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_too_many),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
