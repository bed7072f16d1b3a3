/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Controllers of a session: each is asked, the first that has a word on it has the last one.
 */
#include "session/controller.h"
#include "session/session_private.h"
#include "test/unit/test.h"

/* What one of them says, and how often it was asked what. */
struct talker {
	int check, begin, planned;
	bool makes_calls;
	enum ip_end_reason reason;
	uint64_t nap, room;
	unsigned checked, begun, plans, steps, ended, destroyed;
	unsigned order; /* of its end */
};

static unsigned order;
static struct ip_session s;
static struct talker talkers[IP_CONTROLLERS_MAX];
static struct ip_session_controller controllers[IP_CONTROLLERS_MAX];

static int check(void *data, const struct ip_target *target, const struct ip_plan *plan,
		 uint64_t *room)
{
	struct talker *t = data;

	(void)target;
	(void)plan;
	t->checked++;
	*room += t->room;
	return t->check;
}

static bool makes_calls(const void *data)
{
	return ((const struct talker *)data)->makes_calls;
}

static int begin_one(void *data, struct ip_session *session)
{
	struct talker *t = data;

	assert_ptr_equal(session, &s);
	t->begun++;
	return t->begin;
}

static int planned(void *data, struct ip_session *session, const struct ip_plan *plan)
{
	struct talker *t = data;

	(void)plan;
	assert_ptr_equal(session, &s);
	t->plans++;
	return t->planned;
}

static enum ip_end_reason step(void *data, struct ip_session *session)
{
	struct talker *t = data;

	assert_ptr_equal(session, &s);
	t->steps++;
	return t->reason;
}

static uint64_t nap(const void *data, uint64_t now_ns)
{
	assert_int_equal(now_ns, 1234);
	return ((const struct talker *)data)->nap;
}

static void end_one(void *data, struct ip_session *session)
{
	assert_ptr_equal(session, &s);
	((struct talker *)data)->ended++;
}

static void destroy(void *data)
{
	struct talker *t = data;

	t->destroyed++;
	t->order = ++order;
}

static int begin(void **state)
{
	(void)state;
	memset(&s, 0, sizeof(s));
	memset(talkers, 0, sizeof(talkers));
	order = 0;
	for (size_t i = 0; i < IP_CONTROLLERS_MAX; i++) {
		talkers[i].nap = UINT64_MAX;
		controllers[i] = (struct ip_session_controller){.data = &talkers[i],
								.check = check,
								.makes_calls = makes_calls,
								.begin = begin_one,
								.planned = planned,
								.step = step,
								.nap = nap,
								.end = end_one,
								.destroy = destroy};
	}
	return 0;
}

static void add_all(void)
{
	for (size_t i = 0; i < IP_CONTROLLERS_MAX; i++)
		ip_controllers_add(&s, &controllers[i]);
}

/* A session without any, and one whose controllers have no operations. */
static void test_nobody(void **state)
{
	const struct ip_session_controller silent = {0};
	uint64_t room = 5;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_null(ip_controllers_program(&s));
		assert_null(ip_controllers_meters(&s));
		assert_false(ip_controllers_count(&s));
		assert_false(ip_controllers_make_calls(&s));
		assert_int_equal(ip_controllers_check(&s, NULL, &room), 0);
		assert_int_equal(room, 5);
		assert_int_equal(ip_controllers_begin(&s), 0);
		assert_int_equal(ip_controllers_planned(&s, NULL), 0);
		assert_int_equal(ip_controllers_step(&s), IP_END_NONE);
		assert_true(ip_controllers_nap(&s, 1234) == UINT64_MAX);
		ip_controllers_end(&s);
		ip_controllers_add(&s, &silent);
	}
	assert_null(s.selections.chooser);
	ip_controllers_destroy(&s);
	assert_int_equal(s.ncontrollers, 0);
}

/* All are asked at each step, whoever has a reason: they have meters to read. */
static void test_the_first_reason_wins(void **state)
{
	(void)state;
	add_all();
	assert_int_equal(ip_controllers_step(&s), IP_END_NONE);
	talkers[2].reason = IP_END_UNTIL;
	assert_int_equal(ip_controllers_step(&s), IP_END_UNTIL);
	talkers[1].reason = IP_END_FAILED;
	assert_int_equal(ip_controllers_step(&s), IP_END_FAILED);
	talkers[0].reason = IP_END_DURATION;
	assert_int_equal(ip_controllers_step(&s), IP_END_DURATION);
	for (size_t i = 0; i < IP_CONTROLLERS_MAX; i++)
		assert_int_equal(talkers[i].steps, 4);
}

static void test_the_shortest_nap(void **state)
{
	(void)state;
	add_all();
	assert_true(ip_controllers_nap(&s, 1234) == UINT64_MAX);
	talkers[1].nap = 500;
	assert_int_equal(ip_controllers_nap(&s, 1234), 500);
	talkers[2].nap = 400;
	talkers[0].nap = 600;
	assert_int_equal(ip_controllers_nap(&s, 1234), 400);
	talkers[0].nap = 0;
	assert_int_equal(ip_controllers_nap(&s, 1234), 0);
	/* one that has no word on it does not count */
	controllers[0].nap = NULL;
	assert_int_equal(ip_controllers_nap(&s, 1234), 400);
}

/* Each adds the room that it needs; who cannot work here ends it, and those behind are not asked.
 */
static void test_checks(void **state)
{
	uint64_t room = 8;

	(void)state;
	add_all();
	for (size_t i = 0; i < IP_CONTROLLERS_MAX; i++)
		talkers[i].room = 100 << i;
	assert_int_equal(ip_controllers_check(&s, NULL, &room), 0);
	assert_int_equal(room, 1508);
	talkers[1].check = talkers[1].begin = talkers[1].planned = -1;
	assert_int_equal(ip_controllers_check(&s, NULL, &room), -1);
	assert_int_equal(ip_controllers_begin(&s), -1);
	assert_int_equal(ip_controllers_planned(&s, NULL), -1);
	assert_int_equal(talkers[0].checked, 2);
	assert_int_equal(talkers[1].checked, 2);
	assert_int_equal(talkers[2].checked, 1);
	assert_int_equal(talkers[0].begun, 1);
	assert_int_equal(talkers[2].begun, 0);
	assert_int_equal(talkers[0].plans, 1);
	assert_int_equal(talkers[2].plans, 0);
	/* the last to be asked */
	talkers[1].begin = 0;
	talkers[2].begin = -1;
	assert_int_equal(ip_controllers_begin(&s), -1);
	talkers[2].begin = 0;
	assert_int_equal(ip_controllers_begin(&s), 0);
	assert_int_equal(talkers[2].begun, 2);
}

/* What one of them is, the session is. */
static void test_what_they_are(void **state)
{
	const struct ip_chooser chooser = {.calls_only = true};
	const struct ip_meter_kind meters = {0};

	(void)state;
	controllers[1].program = "fperf";
	controllers[2].program = "another";
	controllers[2].counts = true;
	controllers[1].meters = &meters;
	controllers[1].chooser = &chooser;
	talkers[2].makes_calls = true;
	ip_controllers_add(&s, &controllers[0]);
	assert_null(ip_controllers_program(&s));
	assert_null(s.selections.chooser);
	ip_controllers_add(&s, &controllers[1]);
	assert_string_equal(ip_controllers_program(&s), "fperf");
	assert_ptr_equal(ip_controllers_meters(&s), &meters);
	assert_ptr_equal(s.selections.chooser, &chooser);
	assert_false(ip_controllers_count(&s));
	assert_false(ip_controllers_make_calls(&s));
	ip_controllers_add(&s, &controllers[2]);
	assert_string_equal(ip_controllers_program(&s), "fperf");
	assert_ptr_equal(s.selections.chooser, &chooser);
	assert_true(ip_controllers_count(&s));
	assert_true(ip_controllers_make_calls(&s));
}

/* Those that were added last go first: they may use what was there before. */
static void test_the_end(void **state)
{
	(void)state;
	controllers[1].destroy = NULL; /* it is not the session's */
	add_all();
	ip_controllers_end(&s);
	ip_controllers_destroy(&s);
	ip_controllers_destroy(&s);
	for (size_t i = 0; i < IP_CONTROLLERS_MAX; i++)
		assert_int_equal(talkers[i].ended, 1);
	assert_int_equal(talkers[0].destroyed, 1);
	assert_int_equal(talkers[1].destroyed, 0);
	assert_int_equal(talkers[2].destroyed, 1);
	assert_int_equal(talkers[3].order, 1);
	assert_int_equal(talkers[2].order, 2);
	assert_int_equal(talkers[0].order, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_nobody, begin),
		cmocka_unit_test_setup(test_the_first_reason_wins, begin),
		cmocka_unit_test_setup(test_the_shortest_nap, begin),
		cmocka_unit_test_setup(test_checks, begin),
		cmocka_unit_test_setup(test_what_they_are, begin),
		cmocka_unit_test_setup(test_the_end, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
