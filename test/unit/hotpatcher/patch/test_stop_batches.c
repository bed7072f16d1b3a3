/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dividing changes among stops: whole functions, few pages twice, no stop longer than allowed.
 */
#include <stdlib.h>

#include "hotpatcher/patch/stop_batches.h"
#include "test/unit/test.h"

#define TEXT	  0x400000ull
#define FUNCTIONS 200
#define PAGE	  0x1000ull

/* Two sites of each function, entry and exit, n functions a page apart. */
static void lay_out(struct ip_change *changes, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		changes[2 * i] = (struct ip_change){
			.address = TEXT + i * PAGE, .length = 5, .group = n - 1 - i};
		changes[2 * i + 1] = changes[2 * i];
		changes[2 * i + 1].address += 0x20;
	}
}

static void shuffle(struct ip_change *changes, size_t n)
{
	uint64_t random = 88172645463325252ull;

	for (size_t i = n; i > 1; i--) {
		struct ip_change c = changes[i - 1];
		size_t k;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		k = random % i;
		changes[i - 1] = changes[k];
		changes[k] = c;
	}
}

/* Groups come by where they begin, however they are numbered, and each in one piece. */
static void test_order(void **state)
{
	struct ip_change changes[2 * FUNCTIONS];

	(void)state;
	lay_out(changes, FUNCTIONS);
	shuffle(changes, 2 * FUNCTIONS);
	assert_int_equal(ip_stop_batches_order(changes, 2 * FUNCTIONS), 0);
	for (unsigned i = 0; i < 2 * FUNCTIONS; i++) {
		assert_int_equal(changes[i].address, TEXT + i / 2 * PAGE + i % 2 * 0x20);
		assert_int_equal(changes[i].group, FUNCTIONS - 1 - i / 2);
	}
	/* a cold part far away stays with its function */
	changes[1].address = TEXT + 1000 * PAGE;
	assert_int_equal(ip_stop_batches_order(changes, 2 * FUNCTIONS), 0);
	assert_int_equal(changes[1].address, TEXT + 1000 * PAGE);
	assert_int_equal(changes[0].group, changes[1].group);
	assert_int_equal(ip_stop_batches_order(changes, 0), 0);
}

/* As many whole groups as fit, and one where none does. */
static void test_parts(void **state)
{
	const uint64_t one = ip_patch_expect_ns(1, 0);
	struct ip_change changes[2 * FUNCTIONS];

	(void)state;
	assert_true(one > 0);
	lay_out(changes, FUNCTIONS);
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, 0), 2);
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, 2 * one - 1), 2);
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, 2 * one), 4);
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, 7 * one), 14);
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, UINT64_MAX), 2 * FUNCTIONS);
	assert_int_equal(ip_stop_batches_next(changes, 1, 0), 1);
	assert_int_equal(ip_stop_batches_next(changes, 0, one), 0);
	/* sites of one page cost it once */
	for (unsigned i = 0; i < 2 * FUNCTIONS; i++)
		changes[i].address = TEXT + 8 * i;
	assert_int_equal(ip_stop_batches_next(changes, 2 * FUNCTIONS, one), 2 * FUNCTIONS);
	/* one that crosses costs both, and its steps */
	lay_out(changes, 3);
	changes[1].address = TEXT + PAGE - 2;
	assert_true(ip_patch_expect_ns(2, 1) > 2 * one);
	assert_int_equal(ip_stop_batches_next(changes, 6, ip_patch_expect_ns(2, 1) - 1), 2);
	assert_int_equal(ip_stop_batches_next(changes, 6, ip_patch_expect_ns(2, 1)), 4);
}

/* Half of the time is for writing, or what gathering the threads leaves. */
static void test_time_for_writing(void **state)
{
	const uint64_t gather = ip_patch_expect_threads_ns(8);

	(void)state;
	assert_true(gather > ip_patch_expect_threads_ns(1));
	assert_int_equal(ip_stop_batches_write_ns(2 * gather, 8), gather);
	assert_int_equal(ip_stop_batches_write_ns(20 * gather, 8), 10 * gather);
	assert_int_equal(ip_stop_batches_write_ns(2 * gather - 2, 8), gather - 2);
	assert_int_equal(ip_stop_batches_write_ns(gather + 7, 8), 7);
	assert_int_equal(ip_stop_batches_write_ns(gather, 8), 0);
	assert_int_equal(ip_stop_batches_write_ns(1, 8), 0);
}

/* What a dry run tells is what the parts are. */
static void test_expectation(void **state)
{
	const uint64_t one = ip_patch_expect_ns(1, 0), gather = ip_patch_expect_threads_ns(4);
	struct ip_change changes[2 * FUNCTIONS];
	size_t stops;

	(void)state;
	lay_out(changes, FUNCTIONS);
	shuffle(changes, 2 * FUNCTIONS);
	assert_int_equal(
		ip_stop_batches_expect(changes, 2 * FUNCTIONS, gather + 10 * one, 4, &stops),
		gather + 10 * one);
	assert_int_equal(stops, FUNCTIONS / 10);
	/* the last part is shorter, and the longest tells */
	assert_int_equal(
		ip_stop_batches_expect(changes, 2 * FUNCTIONS, gather + 12 * one, 4, &stops),
		gather + 12 * one);
	assert_int_equal(stops, FUNCTIONS / 12 + 1);
	/* too little time for anything: a function a stop */
	assert_int_equal(ip_stop_batches_expect(changes, 2 * FUNCTIONS, 1, 4, &stops),
			 gather + one);
	assert_int_equal(stops, FUNCTIONS);
	assert_int_equal(ip_stop_batches_expect(changes, 0, 1, 4, &stops), gather);
	assert_int_equal(stops, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_time_for_writing),
		cmocka_unit_test(test_expectation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
