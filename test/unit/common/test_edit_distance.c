// SPDX-License-Identifier: Apache-2.0
/*
 * The distance of two words.
 */
#include <string.h>

#include "common/edit_distance.h"
#include "test/unit/test.h"

static unsigned between(const char *a, const char *b, unsigned limit)
{
	return ip_edit_distance(a, strlen(a), b, strlen(b), limit);
}

static void test_distances(void **state)
{
	(void)state;
	assert_int_equal(between("attach", "attach", 2), 0);
	assert_int_equal(between("Attach", "aTTACH", 2), 0);
	assert_int_equal(between("atach", "attach", 2), 1);
	assert_int_equal(between("attatch", "attach", 2), 1);
	assert_int_equal(between("attacj", "attach", 2), 1);
	assert_int_equal(between("attahc", "attach", 2), 1); /* a swap */
	assert_int_equal(between("atatch", "attach", 1), 1);
	assert_int_equal(between("ca", "abc", 9), 3); /* nothing is put into what was swapped */
	assert_int_equal(between("", "abc", 9), 3);
	assert_int_equal(between("abc", "", 9), 3);
	assert_int_equal(between("", "", 0), 0);
	assert_int_equal(between("kitten", "sitting", 3), 3);
}

static void test_limit(void **state)
{
	(void)state;
	assert_int_equal(between("kitten", "sitting", 2), 3);
	assert_int_equal(between("report", "xyzxyz", 2), 3);
	assert_int_equal(between("a", "abcdefgh", 3), 4);
	assert_int_equal(ip_edit_limit(1), 1);
	assert_int_equal(ip_edit_limit(3), 2);
	assert_int_equal(ip_edit_limit(9), 3);
	assert_int_equal(ip_edit_limit(100000), IP_EDIT_WORD_MAX / 3);
}

static void test_long_words(void **state)
{
	char word[IP_EDIT_WORD_MAX + 2];

	(void)state;
	memset(word, 'x', sizeof(word));
	assert_int_equal(ip_edit_distance(word, IP_EDIT_WORD_MAX, word, IP_EDIT_WORD_MAX, 5), 0);
	assert_int_equal(ip_edit_distance(word, sizeof(word), word, sizeof(word), 5), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_distances),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_long_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
