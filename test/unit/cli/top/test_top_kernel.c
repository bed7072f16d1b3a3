/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe top says of waits in several processes, and of those that are not known.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cli/top/top_kernel.h"
#include "test/unit/test.h"

static char lock[] = "&db.lock", file[] = "/data/x", a[] = "a", b[] = "b", c[] = "c";

static struct cli_top_wait first[] = {
	{0},
	{.elapsed_ns = 1000,
	 .cpu_ns = 100,
	 .waited_ns = 900,
	 .open = 1,
	 .objects = {{"futex", lock, 500}, {"runqueue", NULL, 300}, {"file", file, 100}},
	 .nobjects = 3},
};
static struct cli_top_wait second[] = {
	{.elapsed_ns = 10, .cpu_ns = 10},
	{.elapsed_ns = 3000,
	 .waited_ns = 2000,
	 .cpu_ns = 1000,
	 .objects = {{"pipe", a, 700}, {"pipe", b, 600}, {"runqueue", NULL, 400}, {"pipe", c, 300}},
	 .nobjects = 4},
};
static struct cli_top_kernel_process items[] = {{11, true, first, 2}, {12, true, second, 2}};
static const struct cli_top_kernel kernel = {.items = items, .n = 2};

static void test_several_processes(void **state)
{
	struct cli_top_wait w;

	(void)state;
	assert_true(cli_top_kernel_wait(&kernel, 1, 0, &w));
	assert_int_equal(w.elapsed_ns, 4000);
	assert_int_equal(w.waited_ns, 2900);
	assert_int_equal(w.open, 1);
	/* what has one name is one; the four longest are left, in their order */
	assert_int_equal(w.nobjects, 4);
	assert_int_equal(w.objects[0].ns, 700);
	assert_string_equal(w.objects[0].name, "a");
	assert_int_equal(w.objects[1].ns, 700);
	assert_string_equal(w.objects[1].kind, "runqueue");
	assert_string_equal(w.objects[2].name, "b");
	assert_string_equal(w.objects[3].name, "&db.lock");
	assert_true(cli_top_kernel_wait(&kernel, 1, 11, &w));
	assert_int_equal(w.nobjects, 3);
	/* of a function without calls nothing is known */
	assert_false(cli_top_kernel_wait(&kernel, 0, 11, &w));
	assert_true(cli_top_kernel_wait(&kernel, 0, 0, &w));
	assert_false(cli_top_kernel_wait(&kernel, 2, 0, &w));
	assert_false(cli_top_kernel_wait(&kernel, 1, 13, &w));
}

static void test_what_is_not_known(void **state)
{
	struct cli_top_wait w = {.elapsed_ns = 1000000, .cpu_ns = 250000, .waited_ns = 750000};

	(void)state;
	assert_true(cli_top_wait_percent(&w) > 74.9 && cli_top_wait_percent(&w) < 75.1);
	w = (struct cli_top_wait){.elapsed_ns = 1000000, .waited_ns = 1000000};
	assert_true(cli_top_wait_percent(&w) == 100);
	w.waited_ns = 994000;
	w.unknown_ns = 6000;
	assert_true(cli_top_wait_percent(&w) < 0);
	/* nothing was lost, and nothing is known */
	w = (struct cli_top_wait){.open = 1};
	assert_true(cli_top_wait_percent(&w) < 0);
	assert_true(cli_top_kernel_fits(getpid()));
	assert_true(cli_top_kernel_fits(-1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_several_processes),
		cmocka_unit_test(test_what_is_not_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
