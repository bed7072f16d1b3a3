/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions of iprobe top wait: what a thread has waited for a CPU is divided among sleep and
 * work, and no function that works is taken for one that waits.
 */
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include "cli/top/top_waits.h"
#include "common/now.h"
#include "test/unit/test.h"

static const struct ip_proc_queue none;

static void test_what_a_thread_was_queued(void **state)
{
	const struct ip_proc_queue before = {1, 1000, 10, 10};

	(void)state;
	/* it only slept: all of it came after a sleep */
	assert_int_equal(cli_top_queued(&before, &(struct ip_proc_queue){1, 5000, 30, 10}), 0);
	/* it computed, and its CPU was taken away; also if it was never switched */
	assert_int_equal(cli_top_queued(&before, &(struct ip_proc_queue){1, 5000, 10, 40}), 4000);
	assert_int_equal(cli_top_queued(&before, &(struct ip_proc_queue){1, 5000, 10, 10}), 4000);
	assert_int_equal(cli_top_queued(&before, &(struct ip_proc_queue){1, 5000, 40, 20}), 1000);
	assert_int_equal(cli_top_queued(&none, &(struct ip_proc_queue){1, 900, 1, 2}), 600);
	/* figures that shrink are another thread's */
	assert_int_equal(cli_top_queued(&before, &none), 0);
	assert_true(cli_top_queued(&none, &(struct ip_proc_queue){1, UINT64_MAX, 1,
								  UINT64_MAX - 1}) > 1ull << 62);
}

static void test_the_limit(void **state)
{
	struct cli_top_waits_process two[] = {
		{.now = {.used_ns = 600, .queued_ns = 50}, .begin_ns = 500, .known = true},
		{.now = {.used_ns = 100}, .known = true}};
	struct cli_top_cpu cpu = {.items = two, .n = 2, .known = true};

	(void)state;
	/* the first has had 150 since its session began, both 250 */
	assert_false(cli_top_cpu_is_wait(&cpu, 0, 301));
	assert_true(cli_top_cpu_is_wait(&cpu, 0, 302));
	assert_false(cli_top_cpu_is_wait(&cpu, SIZE_MAX, 501));
	assert_true(cli_top_cpu_is_wait(&cpu, SIZE_MAX, 502));
	two[1].known = cpu.known = false;
	assert_false(cli_top_cpu_is_wait(&cpu, 1, UINT64_MAX));
	assert_false(cli_top_cpu_is_wait(&cpu, SIZE_MAX, UINT64_MAX));
}

/* Has a CPU for so long. */
static void work(uint64_t ns)
{
	uint64_t from, now;

	assert_int_equal(ip_proc_cpu_used(getpid(), &from), 0);
	do
		assert_int_equal(ip_proc_cpu_used(getpid(), &now), 0);
	while (now - from < ns);
}

static void test_this_process(void **state)
{
	struct cli_live_process self = {.pid = getpid(), .known = true};
	struct cli_live_counts counts = {.processes = &self, .n = 1};
	const uint64_t most = 10000000, later = 20000000;
	struct cli_top_cpu before = {0}, late = {0};

	(void)state;
	work(most);
	assert_int_equal(cli_top_cpu_begin(&before, getpid()), 0);
	assert_int_equal(cli_top_cpu_read(&before, &counts), 0);
	assert_int_equal(cli_top_cpu_read(&late, &counts), 0);
	/* what was before the session is nothing to it; of a process that comes late all counts */
	assert_true(before.used_ns < most);
	assert_false(cli_top_cpu_is_wait(&late, 0, 2 * most));
	work(later);
	assert_int_equal(cli_top_cpu_read(&before, &counts), 0);
	assert_true(before.used_ns - before.before_ns >= later);
	assert_false(cli_top_cpu_is_wait(&before, 0, 2 * later));
	assert_true(cli_top_cpu_is_wait(&before, 0, UINT64_MAX));
	cli_top_cpu_clear(&before);
	cli_top_cpu_clear(&late);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_a_thread_was_queued),
		cmocka_unit_test(test_the_limit),
		cmocka_unit_test(test_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
