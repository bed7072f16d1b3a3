// SPDX-License-Identifier: Apache-2.0
/*
 * What a process may is compared whole: also where thousands of groups stand before what differs.
 */
#include <grp.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "access/thread_credentials.h"
#include "test/unit/test.h"

/* In a child with so many groups: 0: that it has no capability any more was seen; 1: it was not; 2:
 * nothing could be read; 3: not allowed here. */
static int drop_all(int groups)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
	struct ip_credentials before, after;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		gid_t *list = calloc(groups + 1, sizeof(*list));

		for (int i = 0; i < groups; i++)
			list[i] = 1000000 + i;
		if (setgroups(groups, list) < 0)
			_exit(3);
		if (ip_credentials_read(getpid(), &before) < 0)
			_exit(2);
		if (syscall(SYS_capset, &header, none) < 0)
			_exit(3);
		if (ip_credentials_read(getpid(), &after) < 0)
			_exit(2);
		_exit(ip_credentials_are_same(&before, &after));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_groups(void **state)
{
	(void)state;
	if (geteuid() || drop_all(1) == 3)
		skip();
	assert_int_equal(drop_all(1), 0);
	assert_int_equal(drop_all(1000), 0);
	assert_int_equal(drop_all(60000), 2);
}

static void test_nobody(void **state)
{
	struct ip_credentials c;

	(void)state;
	assert_int_equal(ip_credentials_read(0x7fffffff, &c), -1);
	assert_int_equal(ip_credentials_read(getpid(), &c), 0);
	assert_true(ip_credentials_are_same(&c, &c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
