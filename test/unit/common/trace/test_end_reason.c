// SPDX-License-Identifier: Apache-2.0
/*
 * Reasons why recordings end: each has a text of its own, by which readers of a trace know it.
 */
#include "common/trace/end_reason.h"

#include <string.h>

#include "test/unit/test.h"

static void each_is_known_by_its_text(void **state)
{
	assert_null(ip_end_reason_text(IP_END_NONE));
	for (int i = IP_END_NONE + 1; i <= IP_END_FAILED; i++) {
		const char *text = ip_end_reason_text(i);

		assert_non_null(text);
		assert_int_equal(ip_end_reason_of(text), i);
	}
}

static void other_texts_are_none(void **state)
{
	assert_int_equal(ip_end_reason_of(NULL), IP_END_NONE);
	assert_int_equal(ip_end_reason_of(""), IP_END_NONE);
	assert_int_equal(ip_end_reason_of("p99(f) > 1ms: 2.1 ms"), IP_END_NONE);
	assert_int_equal(ip_end_reason_of("target ende"), IP_END_NONE);
}

/* Traces of before have these words. */
static void texts_stay(void **state)
{
	assert_string_equal(ip_end_reason_text(IP_END_SIZE_LIMIT), "size limit reached");
	assert_string_equal(ip_end_reason_text(IP_END_NO_SPACE), "no space left");
	assert_string_equal(ip_end_reason_text(IP_END_EXECED), "target exec'ed");
	assert_string_equal(ip_end_reason_text(IP_END_TARGET_ENDED), "target ended");
	assert_string_equal(ip_end_reason_text(IP_END_DURATION), "duration over");
}

static void early_ends(void **state)
{
	for (int i = IP_END_NONE; i <= IP_END_FAILED; i++) {
		bool room = i == IP_END_SIZE_LIMIT || i == IP_END_NO_SPACE;

		assert_int_equal(ip_end_reason_is_room(i), room);
		assert_int_equal(ip_end_reason_is_early(i),
				 room || i == IP_END_AREAS || i == IP_END_CONFINED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_known_by_its_text),
		cmocka_unit_test(other_texts_are_none),
		cmocka_unit_test(texts_stay),
		cmocka_unit_test(early_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
