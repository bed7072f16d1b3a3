// SPDX-License-Identifier: Apache-2.0
/*
 * Events of several streams come out in the order of time; what there is no room for is lost, and
 * said so once.
 */
#include <string.h>

#include "kernel_trace/users/event_queues.h"
#include "test/unit/test.h"

#define MOST (256u << 10)

static struct ip_event_queues queues;
static struct out {
	uint64_t tsc, next;
	size_t number;
	bool lost;
	uint8_t byte;
} out[4096];
static size_t n, stop_at;

static int take(void *context, size_t number, const struct ip_event_item *item,
		const uint8_t *event, uint64_t next)
{
	assert_true(n < sizeof(out) / sizeof(out[0]));
	out[n++] = (struct out){.tsc = item->tsc,
				.next = next,
				.number = number,
				.lost = item->lost,
				.byte = item->size ? *event : 0};
	return stop_at && n == stop_at ? -7 : 0;
}

static int put(size_t number, uint64_t tsc, size_t size)
{
	const struct ip_event_item item = {.tsc = tsc, .size = size};
	static uint8_t bytes[1024];

	bytes[0] = tsc;
	return ip_event_queue_put(&queues, &queues.items[number], &item, bytes);
}

static int set_up(void **state)
{
	n = stop_at = 0;
	return ip_event_queues_init(&queues, 3, MOST);
}

static int tear_down(void **state)
{
	ip_event_queues_clear(&queues);
	assert_int_equal(queues.rooms, 0);
	return 0;
}

static void test_order(void **state)
{
	for (uint64_t tsc = 1; tsc <= 90; tsc++)
		assert_int_equal(put(tsc * 7 % 3, tsc, 10), 1);
	assert_int_equal(ip_event_queue_put_loss(&queues, &queues.items[1]), 0);
	assert_int_equal(ip_event_queue_put_loss(&queues, &queues.items[1]), 0);
	assert_int_equal(put(1, 95, 10), 1);
	assert_int_equal(put(1, 99, 10), 1);
	assert_int_equal(ip_event_queues_merge(&queues, 96, take, NULL), 0);
	assert_int_equal(n, 92); /* both losses are one */
	for (size_t i = 0, losses = 0; i < n; i++) {
		assert_true(!i || out[i - 1].tsc <= out[i].tsc);
		losses += out[i].lost;
		if (out[i].lost) {
			assert_int_equal(out[i].number, 1);
			assert_int_equal(out[i].next, 95);
		} else if (out[i].tsc <= 90) {
			assert_int_equal(out[i].number, out[i].tsc * 7 % 3);
			assert_int_equal(out[i].byte, out[i].tsc);
		}
		assert_true(i + 1 < n || losses == 1);
	}
	n = 0;
	assert_int_equal(ip_event_queues_merge(&queues, 200, take, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(out[0].tsc, 99);
	assert_int_equal(out[0].next, 200);
}

/* Who takes them says that it is enough. */
static void test_end(void **state)
{
	for (uint64_t tsc = 1; tsc <= 9; tsc++)
		assert_int_equal(put(tsc % 3, tsc, 10), 1);
	stop_at = 4;
	assert_int_equal(ip_event_queues_merge(&queues, 200, take, NULL), -7);
	stop_at = 0;
	assert_int_equal(ip_event_queues_merge(&queues, 200, take, NULL), 0);
	assert_int_equal(n, 9);
	assert_int_equal(out[8].tsc, 9);
}

/* One stream's rush takes no more than all may have; another one has room again behind it. */
static void test_bound(void **state)
{
	uint64_t tsc = 1;
	size_t taken = 0;

	while (put(0, tsc, 1000)) {
		tsc++;
		taken++;
		assert_true(queues.rooms <= MOST);
	}
	assert_true(taken > MOST / 4096);
	assert_int_equal(ip_event_queue_put_loss(&queues, &queues.items[0]), 0);
	assert_int_equal(ip_event_queues_merge(&queues, tsc + 10, take, NULL), 0);
	assert_int_equal(n, taken + 1);
	assert_true(out[taken].lost);
	assert_true(queues.rooms <= MOST / 4);
	assert_int_equal(put(1, tsc + 20, 1000), 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {TEST(test_order), TEST(test_end), TEST(test_bound)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
