/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of processes: each counts once, in whichever process it was added; numbers that no process
 * has do not count.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "common/process_set.h"
#include "test/unit/test.h"

struct found {
	uint32_t pids[8];
	size_t n;
};

static void visit(void *context, uint32_t pid)
{
	struct found *found = context;

	assert_true(found->n < 8);
	found->pids[found->n++] = pid;
}

static void test_each_counts_once(void **state)
{
	static const uint32_t added[] = {64, 1, 63, (1u << 22) - 1, 64, 1, 0, 1u << 22, UINT32_MAX},
			      wanted[] = {1, 63, 64, (1u << 22) - 1};
	struct ip_process_set *set = ip_process_set_create(false);
	struct found found = {0};

	assert_non_null(set);
	for (size_t i = 0; i < sizeof(added) / sizeof(*added); i++)
		ip_process_set_add(set, added[i]);
	assert_int_equal(ip_process_set_count(set), 4);
	ip_process_set_each(set, visit, &found);
	assert_int_equal(found.n, 4);
	assert_memory_equal(found.pids, wanted, sizeof(wanted));
	ip_process_set_add_unknown(set, 3);
	assert_int_equal(ip_process_set_count(set), 7);
	ip_process_set_destroy(set);
}

/* shared: what children add is there; else it is not. */
static uint64_t count_of_children(bool shared)
{
	struct ip_process_set *set = ip_process_set_create(shared);
	uint64_t n;

	assert_non_null(set);
	ip_process_set_add(set, 7);
	for (uint32_t i = 0; i < 4; i++)
		if (fork() == 0) {
			ip_process_set_add(set, 7);
			ip_process_set_add(set, 8);
			ip_process_set_add(set, 100 + i);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	n = ip_process_set_count(set);
	ip_process_set_destroy(set);
	return n;
}

static void test_shared(void **state)
{
	assert_int_equal(count_of_children(true), 6);
	assert_int_equal(count_of_children(false), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_counts_once),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
