/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had a lock while others waited for it, by events of the kernel that the tests write.
 */
#include "analysis/wait/locks/lock_holder.h"
#include "test/unit/analysis/wait/kernel_writer.h"

#define LOCK 0x100u

struct part {
	int32_t holder;
	uint64_t from, to;
};

struct parts {
	struct part items[8];
	size_t n;
};

static int note(void *context, const struct ip_thread_wait *wait,
		const struct ip_thread_states *holder, uint64_t from, uint64_t to)
{
	struct parts *parts = context;

	assert_true(parts->n < 8);
	assert_non_null(wait);
	parts->items[parts->n++] = (struct part){holder->tid, from, to};
	return 0;
}

/* Begins to wait for a lock: CPU cpu is idle then. */
static void begin_wait(struct writer *w, uint64_t tsc, int32_t tid)
{
	switch_to(w, tsc - 2, 0, 0, tid);
	futex(w, tsc - 1, tid, LOCK, FUTEX_WAIT, 2);
	switch_to(w, tsc, tid, 1, 0);
}

/* by, which is switched to from the idle thread, unlocks a lock; tid gets it. */
static void hand_over(struct writer *w, uint64_t tsc, int32_t by, uint64_t word, int32_t tid)
{
	futex(w, tsc - 1, by, word, FUTEX_WAKE, 1);
	wake(w, IP_KERNEL_SCHED_WAKING, tsc, by, tid, 0);
	wake(w, IP_KERNEL_SCHED_WAKEUP, tsc, by, tid, 0);
	ret(w, tsc + 1, by, SYS_futex, 1);
	switch_to(w, tsc + 2, by, 1, tid);
	ret(w, tsc + 3, tid, SYS_futex, 0);
}

static void check(const struct parts *found, const struct part *wanted, size_t n)
{
	assert_int_equal(found->n, n);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(found->items[i].holder, wanted[i].holder);
		assert_int_equal(found->items[i].from, wanted[i].from);
		assert_int_equal(found->items[i].to, wanted[i].to);
	}
}

static void holders(const struct ip_states *states, int32_t tid, uint64_t from, uint64_t to,
		    struct parts *ret)
{
	*ret = (struct parts){0};
	assert_int_equal(ip_lock_holders(states, wait_at(states, tid, from), from, to, note, ret),
			 0);
}

/* 9 has the lock while 6, 7 and 8 wait for it, who get it from each other. */
static void test_a_queue(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct parts parts;

	begin_wait(w, 110, 6);
	begin_wait(w, 120, 7);
	begin_wait(w, 130, 8);
	switch_to(w, 140, 0, 0, 9);
	hand_over(w, 200, 9, LOCK, 6);
	hand_over(w, 230, 6, LOCK, 7);
	hand_over(w, 260, 7, LOCK, 8);
	flush(w, "all", 0);
	states = states_of(w);
	holders(states, 6, 110, 200, &parts);
	check(&parts, (const struct part[]){{9, 110, 200}}, 1);
	holders(states, 7, 120, 230, &parts);
	check(&parts, (const struct part[]){{6, 200, 230}, {9, 120, 200}}, 2);
	holders(states, 8, 130, 260, &parts);
	check(&parts, (const struct part[]){{7, 230, 260}, {6, 200, 230}, {9, 130, 200}}, 3);
	/* a part of the wait */
	holders(states, 8, 150, 190, &parts);
	check(&parts, (const struct part[]){{9, 150, 190}}, 1);
	holders(states, 8, 150, 210, &parts);
	check(&parts, (const struct part[]){{6, 200, 210}, {9, 150, 200}}, 2);
	holders(states, 8, 235, 240, &parts);
	check(&parts, (const struct part[]){{7, 235, 240}}, 1);
	ip_states_destroy(states);
}

/* 7 had waited for another lock: it had this one all the time. */
static void test_another_lock(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct parts parts;

	begin_wait(w, 110, 8);
	switch_to(w, 118, 0, 0, 7);
	futex(w, 119, 7, LOCK + 4, FUTEX_WAIT, 2);
	switch_to(w, 120, 7, 1, 9);
	hand_over(w, 200, 9, LOCK + 4, 7);
	hand_over(w, 230, 7, LOCK, 8);
	flush(w, "all", 0);
	states = states_of(w);
	holders(states, 8, 110, 230, &parts);
	check(&parts, (const struct part[]){{7, 110, 230}}, 1);
	ip_states_destroy(states);
}

/* 7 has waited for the lock before 8 did: it has had it since. */
static void test_a_wait_before(void **state)
{
	struct writer *w = *state;
	struct ip_states *states;
	struct parts parts;

	begin_wait(w, 110, 7);
	switch_to(w, 118, 0, 0, 9);
	hand_over(w, 130, 9, LOCK, 7);
	switch_to(w, 140, 7, 1, 8);
	futex(w, 149, 8, LOCK, FUTEX_WAIT, 2);
	switch_to(w, 150, 8, 1, 7);
	hand_over(w, 230, 7, LOCK, 8);
	flush(w, "all", 0);
	states = states_of(w);
	holders(states, 8, 150, 230, &parts);
	check(&parts, (const struct part[]){{7, 150, 230}}, 1);
	ip_states_destroy(states);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_queue),
		TEST(test_another_lock),
		TEST(test_a_wait_before),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
