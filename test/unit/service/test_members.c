/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of a service: what a look changes, and whose session records a child.
 */
#include <string.h>

#include "service/members.h"
#include "test.h"

#define SECOND_NS 1000000000ull
#define SECOND	  100u /* in the kernel's ticks */

static struct ip_service_members members;

static void look(const struct ip_service_process *items, size_t n)
{
	const struct ip_service_processes found = {(struct ip_service_process *)items, n};

	assert_int_equal(ip_service_members_meet(&members, &found, 10, 20), 0);
}

/* A parent whose session, which follows forks, went live 5 s after the machine was started. */
static struct ip_service_member *record_parent(void)
{
	const struct ip_service_process parent = {.pid = 1, .started = 1, .identity = 7};
	struct ip_service_member *m;

	look(&parent, 1);
	m = members.items[0];
	m->state = IP_SERVICE_RECORDING;
	m->recorded = m->process.identity;
	m->worker.follows = true;
	m->live_ns = 5 * SECOND_NS;
	return m;
}

/* Looks again: the parent is what it is now, and has a child. */
static struct ip_service_member *meet_child(uint64_t parents_identity, uint64_t started,
					    uint64_t identity)
{
	const struct ip_service_process both[] = {
		{.pid = 1, .started = 1, .identity = parents_identity},
		{.pid = 2, .parent = 1, .started = started, .identity = identity}};

	look(both, 2);
	assert_int_equal(members.n, 2);
	return members.items[1];
}

static int end(void **state)
{
	(void)state;
	ip_service_members_clear(&members);
	return 0;
}

static void test_looks(void **state)
{
	struct ip_service_process p = {.pid = 1, .started = 1, .identity = 7};
	struct ip_service_member *m;

	(void)state;
	look(&p, 1);
	m = members.items[0];
	assert_int_equal(m->state, IP_SERVICE_WAITING);
	assert_int_equal(m->again_ns, 10);
	m->state = IP_SERVICE_LEFT;
	m->tries = 3;
	look(&p, 1);
	assert_int_equal(m->state, IP_SERVICE_LEFT);
	/* another program: it is tried again */
	p.identity = 8;
	look(&p, 1);
	assert_int_equal(m->state, IP_SERVICE_WAITING);
	assert_int_equal(m->tries, 0);
	assert_int_equal(m->again_ns, 20);
	/* but not what is recorded, nor what was, unless an exec has ended that */
	m->state = IP_SERVICE_RECORDING;
	p.identity = 9;
	look(&p, 1);
	assert_int_equal(m->state, IP_SERVICE_RECORDING);
	m->state = IP_SERVICE_RECORDED;
	p.identity = 10;
	look(&p, 1);
	assert_int_equal(m->state, IP_SERVICE_RECORDED);
	m->execed = true;
	p.identity = 11;
	look(&p, 1);
	assert_int_equal(m->state, IP_SERVICE_WAITING);
	look(NULL, 0);
	assert_true(m->gone);
	/* another process with its number */
	p.started = 2;
	look(&p, 1);
	assert_int_equal(members.n, 2);
	assert_true(m->gone);
	assert_false(members.items[1]->gone);
}

static void test_followed(void **state)
{
	struct ip_service_member *parent = record_parent(), *child;

	(void)state;
	child = meet_child(7, 6 * SECOND, 7);
	assert_true(ip_service_member_is_followed(&members, child));
	parent->worker.follows = false;
	assert_false(ip_service_member_is_followed(&members, child));
	parent->worker.follows = true;
	parent->live_ns = 7 * SECOND_NS; /* it was forked before */
	assert_false(ip_service_member_is_followed(&members, child));
	parent->live_ns = 0;
	assert_false(ip_service_member_is_followed(&members, child));
	parent->state = IP_SERVICE_FOLLOWED;
	assert_true(ip_service_member_is_followed(&members, child));
	parent->state = IP_SERVICE_RECORDED;
	assert_false(ip_service_member_is_followed(&members, child));
}

static void test_another_user(void **state)
{
	struct ip_service_member *child;

	(void)state;
	record_parent();
	child = meet_child(7, 6 * SECOND, 9);
	assert_false(ip_service_member_is_followed(&members, child));
	assert_true(ip_service_member_is_let_go(&members, child));
}

/* The parent has executed itself: what it forks now is what it is now, and not what is recorded. */
static void test_parent_that_executes_itself(void **state)
{
	struct ip_service_member *child;

	(void)state;
	record_parent();
	child = meet_child(9, 6 * SECOND, 9);
	assert_false(ip_service_member_is_followed(&members, child));
	assert_false(ip_service_member_is_let_go(&members, child));
}

static void test_let_go(void **state)
{
	struct ip_service_member *child;

	(void)state;
	record_parent();
	child = meet_child(7, 6 * SECOND, 7);
	child->process.exe = 3;
	members.items[0]->process.exe = 3;
	ip_service_member_set_followed(&members, child);
	assert_false(ip_service_member_is_missed(&members, child));
	assert_false(ip_service_members_let_go(&members, 3, 30));
	assert_true(ip_service_members_let_go(&members, 2, 30));
	assert_int_equal(child->state, IP_SERVICE_WAITING);
	assert_int_equal(child->again_ns, 30);
	assert_true(child->freed);
	/* nothing told us yet that it is another user, and none of it is in its parent's trace */
	assert_true(ip_service_member_is_missed(&members, child));
	child->live_ns = 7 * SECOND_NS;
	assert_false(ip_service_member_is_missed(&members, child));
	/* its own session may have begun sooner */
	child->state = IP_SERVICE_RECORDING;
	assert_true(ip_service_members_let_go(&members, 2, 40));
	assert_int_equal(child->state, IP_SERVICE_RECORDING);
	look(NULL, 0);
	assert_false(ip_service_members_let_go(&members, 2, 50));
	/* its parent, too, has ended, and that one's session still has to put it back */
	assert_true(ip_service_member_is_let_go(&members, child));
}

/* It executes something else, which is not recorded in others: its end is of no interest. */
static void test_let_go_and_executed(void **state)
{
	struct ip_service_member *child;
	struct ip_service_process now;

	(void)state;
	record_parent();
	child = meet_child(7, 6 * SECOND, 7);
	child->process.exe = 3;
	ip_service_member_set_followed(&members, child);
	assert_true(ip_service_members_let_go(&members, 2, 30));
	now = child->process;
	now.exe = 0; /* it may not be looked at any more: that tells nothing */
	look(&now, 1);
	assert_true(ip_service_member_is_missed(&members, child));
	child->process.exe = 3;
	now.exe = 4;
	now.identity = 11;
	look(&now, 1);
	assert_false(child->let_go);
	assert_false(ip_service_member_is_missed(&members, child));
}

static void test_whose_session(void **state)
{
	struct ip_service_member *parent = record_parent(), *child, other = {0};

	(void)state;
	child = meet_child(7, 6 * SECOND, 7);
	ip_service_member_set_followed(&members, child);
	assert_ptr_equal(child->follower, parent);
	assert_true(ip_service_member_is_followed_by(child, parent));
	assert_false(ip_service_member_is_followed_by(child, &other));
	ip_service_members_free_followed(&members, &other, 30);
	assert_int_equal(child->state, IP_SERVICE_FOLLOWED);
	ip_service_members_free_followed(&members, parent, 30);
	assert_int_equal(child->state, IP_SERVICE_WAITING);
	assert_int_equal(child->again_ns, 30);
	assert_true(child->freed);
	/* where it is not known, it may be anybody's */
	parent->state = IP_SERVICE_RECORDED;
	ip_service_member_set_followed(&members, child);
	assert_null(child->follower);
	assert_true(ip_service_member_is_followed_by(child, &other));
	assert_int_equal(ip_service_members_count(&members, IP_SERVICE_FOLLOWED), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_looks, end),
		cmocka_unit_test_teardown(test_followed, end),
		cmocka_unit_test_teardown(test_another_user, end),
		cmocka_unit_test_teardown(test_parent_that_executes_itself, end),
		cmocka_unit_test_teardown(test_let_go, end),
		cmocka_unit_test_teardown(test_let_go_and_executed, end),
		cmocka_unit_test_teardown(test_whose_session, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
