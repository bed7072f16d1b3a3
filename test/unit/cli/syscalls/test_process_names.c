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
	assert_int_equal(cli_process_names_note(&names, 0, "nobody"), 0);
	assert_string_equal(cli_process_names_text(&names, 0), "(not known)");
	assert_int_equal(cli_process_names_note(&names, 7, "sh"), 0);
	assert_int_equal(cli_process_names_note(&names, 7, "server"), 0); /* it has executed it */
	assert_int_equal(cli_process_names_note(&names, 7, ""), 0);	  /* it has ended */
	assert_string_equal(cli_process_names_text(&names, 7), "7 server");
	for (uint32_t pid = 8; pid < 8 + MANY; pid++)
		assert_int_equal(cli_process_names_note(&names, pid, "worker"), 0);
	assert_int_equal(cli_process_names_copy(&copy, &names), 0);
	assert_int_equal(cli_process_names_note(&names, 8, "\x1b[31mred"), 0);
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

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
