/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch that makes way for a recording: it is the session that was seen that ends, and never one
 * that came after it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "session/session_private.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define WATCH	  6u
#define RECORDING 7u

static struct ip_session s;
static int holder; /* another iprobe's descriptor of the area */

static void lock_session(short type)
{
	struct flock l = {
		.l_type = type, .l_whence = SEEK_SET, .l_start = IP_AREA_LOCK_SESSION, .l_len = 1};

	assert_int_equal(fcntl(holder, F_OFD_SETLK, &l), 0);
}

static int begin(void **state)
{
	char name[64];

	(void)state;
	s = (struct ip_session){.target = fake_target_open()};
	assert_int_equal(ip_area_create(1 << 20, &s.area), 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", s.area->fd);
	holder = open(name, O_RDWR | O_CLOEXEC);
	assert_true(holder >= 0);
	lock_session(F_WRLCK);
	s.area->header->session = s.area->header->yields = WATCH;
	return 0;
}

static int end(void **state)
{
	(void)state;
	close(holder);
	ip_area_close(s.area);
	ip_target_close(s.target);
	return 0;
}

/* Waits for the word that the watch ends. Then its session is no more, or a recording has begun. */
static void *watch(void *next)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (__atomic_load_n(&s.area->header->ended, __ATOMIC_ACQUIRE) != WATCH)
		nanosleep(&nap, NULL);
	if (next)
		__atomic_store_n(&s.area->header->session, RECORDING, __ATOMIC_RELAXED);
	else
		lock_session(F_UNLCK);
	return NULL;
}

static void take_over_of(void *next)
{
	pthread_t thread;

	assert_int_equal(ip_session_yields(s.area), WATCH);
	assert_int_equal(pthread_create(&thread, NULL, watch, next), 0);
	assert_int_equal(ip_session_take_over(&s, WATCH), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(s.area->header->yields, 0);
	assert_int_equal(s.area->header->ended, WATCH);
	assert_int_equal(ip_session_yields(s.area), 0);
}

static void test_it_ends(void **state)
{
	(void)state;
	take_over_of(NULL);
	assert_false(ip_area_has_session(s.area));
}

/* Another was quicker: it is not waited for. */
static void test_it_ends_and_a_recording_begins(void **state)
{
	(void)state;
	take_over_of(&s);
	assert_true(ip_area_has_session(s.area));
	assert_int_equal(s.area->header->session, RECORDING);
}

/* Between the look and the word. A recording is left alone, and so is another watch. */
static void test_a_session_that_came_after_it(void **state)
{
	uint32_t seen = ip_session_yields(s.area);

	(void)state;
	assert_int_equal(seen, WATCH);
	s.area->header->session = RECORDING;
	s.area->header->yields = 0;
	assert_int_equal(ip_session_yields(s.area), 0);
	assert_int_equal(ip_session_take_over(&s, seen), 0);
	assert_int_equal(s.area->header->ended, 0);
	s.area->header->yields = RECORDING;
	assert_int_equal(ip_session_take_over(&s, seen), 0);
	assert_int_equal(s.area->header->ended, 0);
	assert_int_equal(s.area->header->yields, RECORDING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_it_ends, begin, end),
		cmocka_unit_test_setup_teardown(test_it_ends_and_a_recording_begins, begin, end),
		cmocka_unit_test_setup_teardown(test_a_session_that_came_after_it, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
