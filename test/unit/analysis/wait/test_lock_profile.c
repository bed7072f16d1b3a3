/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: who had them for how long, by events of the kernel that the tests write. Thread 7, 8 and 9
 * are of one process.
 */
#include "analysis/wait/locks/lock_profile.h"
#include "test/unit/analysis/wait/kernel_writer.h"

#define LOCK 0x100u

static uint32_t one_process(const void *context, int32_t tid, uint64_t tsc)
{
	return tid < 100 ? 1 : 2;
}

static const struct ip_thread_owners owners = {.pid_of = one_process};

static struct ip_lock_profile *profile_of(struct writer *w, struct ip_states **ret)
{
	struct ip_lock_profile *p;

	*ret = states_of(w);
	p = ip_lock_profile_make(NULL, *ret, NULL, &owners);
	assert_non_null(p);
	return p;
}

static void check(const struct ip_lock_sums *s, uint64_t waits, uint64_t wait_ticks, uint64_t had,
		  uint64_t had_ticks, uint64_t whole, uint64_t whole_ticks)
{
	assert_int_equal(s->waits, waits);
	assert_int_equal(s->wait_ticks, wait_ticks);
	assert_int_equal(s->had, had);
	assert_int_equal(s->had_ticks, had_ticks);
	assert_int_equal(s->whole, whole);
	assert_int_equal(s->whole_ticks, whole_ticks);
}

/* A thread waits for a futex from one time on, and is woken at another by a thread that unlocks. */
static void wait_for(struct writer *w, uint64_t from, int32_t tid, uint64_t word, uint64_t until,
		     int32_t by)
{
	switch_to(w, from - 2, 0, 0, tid);
	futex(w, from - 1, tid, word, FUTEX_WAIT, 2);
	switch_to(w, from, tid, 1, by);
	futex(w, until - 1, by, word, FUTEX_WAKE, 1);
	wake(w, IP_KERNEL_SCHED_WAKING, until, by, tid, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, until, by, tid, 0);
	ret(w, until + 1, by, SYS_futex, 1);
	switch_to(w, until + 5, by, 1, tid);
	ret(w, until + 6, tid, SYS_futex, 0);
}

/* 9 has the lock, at least from when 7 waits for it; 7 has it then, until it unlocks it, all of
 * which is known; and has it again, of which nothing is known. */
static void test_who_waited_has_it(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_lock_profile *p;

	wait_for(w, 110, 7, LOCK, 150, 9);
	futex(w, 180, 7, LOCK, FUTEX_WAKE, 1);
	ret(w, 181, 7, SYS_futex, 0);
	futex(w, 200, 7, LOCK, FUTEX_WAKE, 1);
	ret(w, 201, 7, SYS_futex, 0);
	futex(w, 202, 7, LOCK + 4, FUTEX_WAKE, 1); /* of which nobody waits */
	flush(w, "all", 0);
	p = profile_of(w, &states);
	assert_int_equal(p->n, 1);
	assert_int_equal(p->locks[0].object.address, LOCK);
	assert_int_equal(p->locks[0].pid, 1);
	check(&p->locks[0].sums, 1, 40, 2, 39 + 24, 1, 24);
	assert_int_equal(p->locks[0].sums.had_max, 39);
	ip_lock_profile_destroy(p);
	ip_states_destroy(states);
}

/* 7 is woken, but 8 was faster: 7 waits again, and what it had in between was nothing. */
static void test_who_was_faster(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_lock_profile *p;

	wait_for(w, 110, 7, LOCK, 150, 9);
	wait_for(w, 160, 7, LOCK, 190, 8);
	futex(w, 210, 7, LOCK, FUTEX_WAKE, 1);
	flush(w, "all", 0);
	p = profile_of(w, &states);
	assert_int_equal(p->n, 1);
	check(&p->locks[0].sums, 2, 40 + 30, 3, 39 + 29 + 14, 1, 14);
	ip_lock_profile_destroy(p);
	ip_states_destroy(states);
}

/* Locks of two processes at one address are two; what is no lock is none; the longest is first. */
static void test_several(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_lock_profile *p;

	wait_for(w, 110, 7, LOCK, 150, 9);
	wait_for(w, 210, 107, LOCK, 290, 109);
	switch_to(w, 300, 0, 0, 7);
	futex(w, 301, 7, LOCK + 8, FUTEX_WAIT, 0);
	switch_to(w, 302, 7, 1, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 400, 9, 7, 0);
	flush(w, "all", 0);
	p = profile_of(w, &states);
	assert_int_equal(p->n, 2);
	assert_int_equal(p->locks[0].pid, 2);
	assert_int_equal(p->locks[1].pid, 1);
	check(&p->locks[0].sums, 1, 80, 1, 79, 0, 0);
	check(&p->locks[1].sums, 1, 40, 1, 39, 0, 0);
	ip_lock_profile_destroy(p);
	ip_states_destroy(states);
}

/* Events were lost while 9 had it: another thread may have had it too. */
static void test_losses(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct ip_lock_profile *p;

	switch_to(w, 100, 0, 0, 7);
	futex(w, 105, 7, LOCK, FUTEX_WAIT, 2);
	switch_to(w, 110, 7, 1, 9);
	futex(w, 120, 9, LOCK + 4, FUTEX_WAKE, 1);
	flush(w, "all", 0);
	w->lost = 3;
	futex(w, 149, 9, LOCK, FUTEX_WAKE, 1);
	wake(w, IP_KERNEL_SCHED_WAKING, 150, 9, 7, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, 150, 9, 7, 0);
	flush(w, "all", 0);
	p = profile_of(w, &states);
	assert_int_equal(states->lost, 3);
	assert_int_equal(p->n, 1);
	assert_int_equal(p->locks[0].sums.waits, 1);
	assert_int_equal(p->locks[0].sums.had, 0);
	ip_lock_profile_destroy(p);
	ip_states_destroy(states);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_who_waited_has_it),
		TEST(test_who_was_faster),
		TEST(test_several),
		TEST(test_losses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
