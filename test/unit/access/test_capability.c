// SPDX-License-Identifier: Apache-2.0
/* Names of capabilities. */
#include "access/capability.h"

#include <linux/capability.h>
#include <stdlib.h>

#include "test/unit/test.h"

static void expect(uint64_t set, const char *expected)
{
	char *names = ip_capability_names(set);

	assert_string_equal(names, expected);
	free(names);
}

static void test_names(void **state)
{
	(void)state;
	expect(0, "");
	expect(1ull << CAP_SYS_PTRACE, "CAP_SYS_PTRACE");
	expect(1ull << CAP_NET_BIND_SERVICE | 1ull << CAP_CHOWN, "CAP_CHOWN, CAP_NET_BIND_SERVICE");
	expect(1ull << CAP_CHECKPOINT_RESTORE | 1ull << 63,
	       "CAP_CHECKPOINT_RESTORE, capability 63");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
