/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose stops a log has: the process's own, holds of one thread, and those of forked children.
 */
#include "hotpatcher/ptrace/stop_log.h"

#include "test/unit/test.h"

static const struct ip_stop_record hold = {.kind = "attach", .ns = 1, .held = true},
				   stop = {.kind = "attach", .ns = 2},
				   child = {.kind = "child", .ns = 4}, untold = {.ns = 8};

static struct ip_stop_log all, own, children, other;

static int clear(void **state)
{
	ip_stop_log_clear(&all);
	ip_stop_log_clear(&other);
	return 0;
}

static void stops_of_children_are_no_stops_of_the_process(void **state)
{
	assert_false(ip_stop_log_only_held(&all));
	ip_stop_log_add(&all, &child);
	assert_false(ip_stop_log_only_held(&all));
	ip_stop_log_add(&all, &hold);
	assert_true(ip_stop_log_only_held(&all));
	ip_stop_log_add(&all, &stop);
	assert_false(ip_stop_log_only_held(&all));
	ip_stop_log_split(&all, &own, &children);
	assert_int_equal(own.n, 2);
	assert_int_equal(own.ns, 3);
	assert_int_equal(children.n, 1);
	assert_int_equal(children.ns, 4);
}

/* A server that forks all day. */
static void also_where_the_log_is_full(void **state)
{
	ip_stop_log_add(&all, &hold);
	for (int i = 0; i < IP_STOP_LOG_MAX + 2; i++)
		ip_stop_log_add(&all, &child);
	for (int i = 0; i < IP_STOP_LOG_MAX + 2; i++)
		ip_stop_log_add(&other, &untold);
	ip_stop_log_move(&all, &other, "child");
	assert_true(ip_stop_log_only_held(&all));
	ip_stop_log_split(&all, &own, &children);
	assert_int_equal(own.n + own.more, 1);
	assert_int_equal(children.n + children.more, 2 * IP_STOP_LOG_MAX + 4);
	ip_stop_log_add(&all, &stop);
	assert_false(ip_stop_log_only_held(&all));
	ip_stop_log_split(&all, &own, &children);
	assert_true(own.more > 0 && !children.more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(stops_of_children_are_no_stops_of_the_process, clear),
		cmocka_unit_test_setup(also_where_the_log_is_full, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
