/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second thread that writes: it takes its part of the work, begins nothing that is over, and
 * ends.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/now.h"
#include "hotpatcher/patch/write_helper.h"
#include "test/unit/test.h"

#define BUFFER 4096
#define ROUNDS 200
#define LONG   10000000000ull

static struct {
	pthread_t caller;
	unsigned next, taken, other; /* atomic */
	unsigned most;
} work;

/* Takes pieces until there are no more. Each thread has a buffer of its own. */
static void take(void *data, uint8_t *buffer)
{
	(void)data;
	while (__atomic_fetch_add(&work.next, 1, __ATOMIC_RELAXED) < work.most) {
		memset(buffer, 1, BUFFER);
		__atomic_fetch_add(&work.taken, 1, __ATOMIC_RELAXED);
		if (!pthread_equal(pthread_self(), work.caller))
			__atomic_fetch_add(&work.other, 1, __ATOMIC_RELAXED);
	}
}

static struct ip_write_helper *start(void)
{
	struct ip_write_helper *helper;

	memset(&work, 0, sizeof(work));
	work.caller = pthread_self();
	helper = ip_write_helper_start(take, NULL, BUFFER);
	/* one CPU, or no right to a real-time priority */
	if (!helper)
		skip();
	return helper;
}

/* Until it has begun, or long after it should have. */
static void await(const unsigned *count)
{
	const uint64_t until = ip_now_ns() + LONG;

	while (!__atomic_load_n(count, __ATOMIC_RELAXED) && ip_now_ns() < until)
		usleep(100);
}

static void test_shares(void **state)
{
	struct ip_write_helper *helper = start();
	uint8_t buffer[BUFFER];

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		work.next = work.taken = 0;
		work.most = 50;
		ip_write_helper_wake(helper);
		ip_write_helper_go(helper);
		take(NULL, buffer);
		ip_write_helper_finish(helper);
		assert_int_equal(work.taken, work.most);
	}
	/* alone it does all of it */
	work.next = work.taken = work.other = 0;
	ip_write_helper_go(helper);
	await(&work.other);
	ip_write_helper_finish(helper);
	assert_int_equal(work.other, work.most);
	ip_write_helper_destroy(helper);
}

static void test_begins_nothing_that_is_over(void **state)
{
	struct ip_write_helper *helper = start();

	(void)state;
	work.most = 50;
	/* awake, and not needed: the stop was given up */
	ip_write_helper_wake(helper);
	ip_write_helper_finish(helper);
	usleep(20000);
	assert_int_equal(work.taken, 0);
	/* whoever was not needed once helps the next time */
	ip_write_helper_wake(helper);
	usleep(20000); /* it sleeps again */
	ip_write_helper_go(helper);
	await(&work.taken);
	ip_write_helper_finish(helper);
	assert_int_equal(work.taken, work.most);
	ip_write_helper_destroy(helper);
}

static void test_without_one(void **state)
{
	(void)state;
	ip_write_helper_wake(NULL);
	ip_write_helper_go(NULL);
	ip_write_helper_finish(NULL);
	ip_write_helper_destroy(NULL);
	/* one that was never called */
	ip_write_helper_destroy(start());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shares),
		cmocka_unit_test(test_begins_nothing_that_is_over),
		cmocka_unit_test(test_without_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
