/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may have events of the kernel, by the policy.
 */
#include <stdio.h>

#include "access/policy.h"
#include "test/unit/test.h"

static bool gives(const char *text, uid_t user, gid_t group, gid_t other)
{
	struct ip_policy policy;
	bool given;

	assert_int_equal(ip_policy_parse(text, strlen(text), "policy.yaml", &policy), 0);
	given = ip_policy_gives_kernel(&policy, user, group, &other, 1);
	ip_policy_clear(&policy);
	return given;
}

static void test_kernel(void **state)
{
	assert_false(gives("", 1000, 1000, 1));
	assert_false(gives("members:\n  - users: [1000]\n", 1000, 1000, 1));
	assert_true(gives("", 0, 0, 1));
	assert_true(gives("kernel: all\n", 1000, 1000, 1));
	assert_true(gives("kernel: {users: [7, 1000]}\n", 1000, 5, 1));
	assert_false(gives("kernel: {users: [7, 1000]}\n", 1001, 1000, 7));
	assert_true(gives("kernel: {groups: [5]}\n", 1000, 5, 1));
	assert_true(gives("kernel: {groups: [4, 5]}\n", 1000, 1, 5));
	assert_false(gives("kernel: {groups: [5]}\n", 5, 1, 2));
	assert_true(gives("kernel: {users: [9], groups: [0]}\n", 1000, 0, 1));
}

static void test_mistakes(void **state)
{
	static const struct {
		const char *text, *why;
	} wrong[] = {
		{"kernel: some\n", "policy.yaml:1:9: who may have events of the kernel"},
		{"kernel: [1000]\n", "policy.yaml:1:9: who may have events of the kernel"},
		{"kernel: {}\n", "policy.yaml:1:9: kernel needs users or groups"},
		{"kernel: {users: 7}\n", "policy.yaml:1:17: users are a list"},
		{"kernel: {users: [0]}\n", "root's processes are for root alone"},
		{"kernel: {users: [no-such-user-1]}\n", "no user 'no-such-user-1'"},
		{"kernel: {groups: [no-such-group-1]}\n", "no group 'no-such-group-1'"},
		{"kernel: {groups: [4294967295]}\n", "no group"},
		{"kernel: {user: [1]}\n", "unknown key 'user'"},
	};
	struct ip_policy policy;

	for (size_t i = 0; i < N_ELEMENTS(wrong); i++) {
		assert_int_equal(ip_policy_parse(wrong[i].text, strlen(wrong[i].text),
						 "policy.yaml", &policy),
				 -1);
		assert_error(wrong[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_mistakes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
