// SPDX-License-Identifier: Apache-2.0
/*
 * Notices reach whoever asked for them, cleaned, and nobody else.
 */
#include <stdio.h>
#include <string.h>

#include "common/notice.h"
#include "test/unit/test.h"

static char said[256];
static int calls;

static void tell(const char *who, const char *text)
{
	calls++;
	snprintf(said, sizeof(said), "%s|%s", who, text);
}

static void nobody_listens(void **state)
{
	calls = 0;
	ip_notice_to(NULL);
	ip_notice("pid %d", 7);
	assert_int_equal(calls, 0);
}

static void in_whose_name(void **state)
{
	ip_notice_to(tell);
	calls = 0;
	ip_notice("pid %d: %s", 7, "waits");
	assert_string_equal(said, "iprobe|pid 7: waits");
	ip_notice_from("iprobed", "%s", "ends");
	assert_string_equal(said, "iprobed|ends");
	assert_int_equal(calls, 2);
	ip_notice_to(NULL);
}

/* Names of functions and threads may hold anything. */
static void arguments_are_cleaned(void **state)
{
	ip_notice_to(tell);
	ip_notice("%s", "a\033[2Jb\nc");
	assert_null(strpbrk(said, "\033\n"));
	assert_non_null(strstr(said, "\\x1b"));
	ip_notice_to(NULL);
}

static bool told_before(const char *text)
{
	return !strcmp(text, "nothing matches a");
}

/* What others have said of their processes is not repeated, and cleaned like the rest. */
static void of_a_process(void **state)
{
	ip_notice_to(tell);
	calls = 0;
	ip_notice_of(7, "nothing matches %s", "a");
	assert_string_equal(said, "iprobe|pid 7: nothing matches a");
	ip_notice_ask(told_before);
	ip_notice_of(8, "nothing matches %s", "a");
	assert_int_equal(calls, 1);
	ip_notice_of(8, "nothing matches %s", "b\033");
	assert_int_equal(calls, 2);
	assert_string_equal(said, "iprobe|pid 8: nothing matches b\\x1b");
	ip_notice_ask(NULL);
	ip_notice_to(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(in_whose_name),
		cmocka_unit_test(arguments_are_cleaned),
		cmocka_unit_test(of_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
