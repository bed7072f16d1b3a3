/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of processes: what was known last stays, and a copy is one of its own.
 */
#include "cli/syscalls/process_names.h"
#include "test/unit/test.h"

#define MANY 5000u

static void test_names(void **state)
{
	struct cli_process_names names = {0}, copy = {0};

	assert_string_equal(cli_process_names_get(&names, 7), "");
	assert_string_equal(cli_process_names_text(&names, 7), "7");
	assert_int_equal(cli_process_names_note(&names, 0, 0, "nobody"), 0);
	assert_string_equal(cli_process_names_text(&names, 0), "(not known)");
	assert_int_equal(cli_process_names_note(&names, 7, 7, "sh"), 0);
	assert_int_equal(cli_process_names_note(&names, 7, 7, "server"), 0);
	assert_int_equal(cli_process_names_note(&names, 7, 7, ""), 0); /* it has ended */
	assert_string_equal(cli_process_names_text(&names, 7), "7 server");
	for (uint32_t pid = 8; pid < 8 + MANY; pid++)
		assert_int_equal(cli_process_names_note(&names, pid, pid, "worker"), 0);
	assert_int_equal(cli_process_names_copy(&copy, &names), 0);
	assert_int_equal(cli_process_names_note(&names, 8, 8, "\x1b[31mred"), 0);
	assert_string_equal(cli_process_names_text(&names, 8), "8 ?[31mred");
	assert_string_equal(cli_process_names_get(&copy, 8), "worker");
	assert_string_equal(cli_process_names_get(&copy, 7 + MANY), "worker");
	assert_string_equal(cli_process_names_get(&copy, 8 + MANY), "");
	cli_process_names_clear(&names);
	cli_process_names_clear(&copy);
	assert_int_equal(cli_process_names_copy(&copy, &names), 0);
	assert_string_equal(cli_process_names_get(&copy, 7), "");
	cli_process_names_clear(&copy);
}

/* Each program that a process was has a name. */
static void test_programs(void **state)
{
	struct cli_process_names names = {0};
	const uint32_t before = cli_process_key(7, 0), after = cli_process_key(7, 1),
		       other = cli_process_key(8, 2);

	assert_int_equal(cli_process_names_note(&names, before, 7, "server"), 0);
	assert_int_equal(cli_process_names_note(&names, after, 7, ""), 0);
	assert_string_equal(cli_process_names_text(&names, after), "7");
	assert_int_equal(cli_process_names_note(&names, after, 7, "python3"), 0);
	assert_string_equal(cli_process_names_text(&names, before), "7 server");
	assert_string_equal(cli_process_names_text(&names, after), "7 python3");
	assert_int_equal(cli_process_names_pid(&names, after), 7);
	assert_string_equal(cli_process_names_text(&names, other), "(not known)");
	cli_process_names_clear(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_programs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
