/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which system calls count as one, and by how much they may last longer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hotpatcher/ptrace/renewed_calls.h"

#define MS    1000000ull
#define CALL  232
#define OTHER 230

/* A call that is broken off again in its sleep is one call, and its times add up. */
static void test_same_call(void **state)
{
	struct ip_renewed_calls calls = {0};

	ip_renewed_calls_add(&calls, 7, CALL, 90 * MS, 1000 * MS);
	ip_renewed_calls_release(&calls, 7, 101 * MS);
	ip_renewed_calls_add(&calls, 7, CALL, 101 * MS + 50000, 1000 * MS);
	ip_renewed_calls_release(&calls, 7, 120 * MS);
	assert_int_equal(calls.n, 1);
	assert_int_equal(ip_renewed_calls_latest(&calls), 2000 * MS);
	/* it fell asleep later: this is another call */
	ip_renewed_calls_add(&calls, 7, CALL, 140 * MS, 1000 * MS);
	assert_int_equal(calls.n, 2);
	assert_int_equal(ip_renewed_calls_latest(&calls), 2000 * MS);
}

/* What cannot be told, another call, another thread, and a thread that has not been let go. */
static void test_other_calls(void **state)
{
	struct ip_renewed_calls calls = {0};

	ip_renewed_calls_add(&calls, 7, CALL, 90 * MS, MS);
	ip_renewed_calls_add(&calls, 7, CALL, 90 * MS, MS);
	ip_renewed_calls_release(&calls, 7, 100 * MS);
	ip_renewed_calls_add(&calls, 7, CALL, 0, MS);
	ip_renewed_calls_release(&calls, 7, 110 * MS);
	ip_renewed_calls_add(&calls, 7, OTHER, 110 * MS, MS);
	ip_renewed_calls_release(&calls, 8, 120 * MS); /* not that thread */
	ip_renewed_calls_release(&calls, 7, 121 * MS);
	ip_renewed_calls_add(&calls, 7 + IP_RENEWED_SLOTS, OTHER, 121 * MS, 5 * MS);
	assert_int_equal(calls.n, 5);
	assert_int_equal(calls.tid, 7 + IP_RENEWED_SLOTS);
	assert_int_equal(ip_renewed_calls_latest(&calls), 5 * MS);
}

static void test_unknown_limit(void **state)
{
	struct ip_renewed_calls calls = {0};

	assert_int_equal(ip_renewed_calls_latest(&calls), 0);
	ip_renewed_calls_add(&calls, 7, CALL, 90 * MS, UINT64_MAX);
	ip_renewed_calls_release(&calls, 7, 100 * MS);
	ip_renewed_calls_add(&calls, 7, CALL, 100 * MS, MS);
	assert_int_equal(calls.n, 1);
	assert_true(ip_renewed_calls_latest(&calls) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_call),
		cmocka_unit_test(test_other_calls),
		cmocka_unit_test(test_unknown_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
