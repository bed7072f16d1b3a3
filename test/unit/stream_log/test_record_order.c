/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of several threads in order of time: none is lost, and those of one thread stay in their
 * order.
 */
#include <stdlib.h>

#include "stream_log/record_order.h"
#include "test/unit/test.h"

static void test_order(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct ip_record_order order = {0};
		const uint32_t threads = 1 + round % 7, each = round * 13 % 97;
		uint32_t next[8] = {0};
		uint64_t before = 0;

		srand(round);
		for (uint32_t t = 0; t < threads; t++) {
			uint64_t time = rand() % 50;

			for (uint32_t i = 0; i < each; i++) {
				const struct ip_order_record r = {
					.time = time, .thread = t, .what = i};

				assert_int_equal(ip_record_order_add(&order, &r), 0);
				time += rand() % 3;
			}
		}
		ip_record_order_sort(&order);
		assert_int_equal(order.n, threads * each);
		while (order.n) {
			const struct ip_order_record r = order.items[0];

			assert_true(r.time >= before);
			assert_int_equal(r.what, next[r.thread]++);
			before = r.time;
			ip_record_order_take(&order, 1);
		}
		ip_record_order_clear(&order);
	}
}

static void test_bounds(void **state)
{
	const struct ip_order_record r = {0};
	struct ip_record_order order = {0};

	(void)state;
	for (uint32_t i = 0; i < IP_RECORD_ORDER_MOST; i++)
		assert_int_equal(ip_record_order_add(&order, &r), 0);
	assert_int_equal(ip_record_order_add(&order, &r), -1);
	ip_record_order_clear(&order);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
