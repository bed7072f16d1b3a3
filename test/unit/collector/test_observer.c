/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an observer is told: each record once, in its order, as soon as it is written; and which
 * threads are behind.
 */
#include <pthread.h>
#include <stdlib.h>

#include "collector/observer_private.h"
#include "common/clock.h"
#include "common/elf/probe_list.h"
#include "common/now.h"
#include "test/unit/fake_recording.h"
#include "test/unit/test.h"

#define SLOT   2
#define TID    77
#define TIME   (1ull << 40)
#define EVENTS (IP_SUBBUF_ROOM - IP_EXT_WORDS + 1) /* in a sub-buffer that is full of them */

static struct fake_recording r;

static struct {
	uint64_t records, looks, ended;
	uint64_t next; /* the time that the next record is to have */
	uint64_t now;
	struct ip_observer_behind behind[4];
	size_t nbehind;
} told;

static void take_records(void *data, const struct ip_observer_claim *claim,
			 const struct ip_observer_record *records, size_t n)
{
	assert_ptr_equal(data, &told);
	assert_int_equal(claim->slot, SLOT);
	assert_int_equal(claim->tid, TID);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(records[i].time, told.next);
		assert_int_equal(records[i].kind, IP_PROBE_ENTRY);
		told.next++;
	}
	told.records += n;
}

static void take_end(void *data, const struct ip_observer_claim *claim, uint64_t time)
{
	assert_int_equal(claim->tid, TID);
	told.ended++;
}

static void take_look(void *data, uint64_t now, const struct ip_observer_behind *behind, size_t n)
{
	told.looks++;
	told.now = now;
	told.nbehind = n;
	assert_true(n <= N_ELEMENTS(told.behind));
	memcpy(told.behind, behind, n * sizeof(*behind));
}

static const struct ip_collector_observer observer = {&told, take_records, take_end, take_look};

static int begin(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};

	fake_recording_begin(&r, &needs, 1ull << 30);
	fake_thread_claim(&r, SLOT, TID);
	memset(&told, 0, sizeof(told));
	told.next = TIME;
	return ip_collector_observe(r.collector, &observer);
}

static int end(void **state)
{
	fake_recording_end(&r);
	return 0;
}

/* The thread has written up to the n-th word of its sub-buffer. */
static void write_to(uint32_t subbuf, uint64_t ordinal, uint32_t n)
{
	fake_thread_take(&r, SLOT, subbuf, ordinal, n);
	fake_fill(fake_words(&r, subbuf), n, TIME + ordinal * EVENTS);
}

static void test_as_soon_as_written(void **state)
{
	static const uint32_t steps[] = {4, 5, 6, 100, 101, 4000, IP_SUBBUF_WORDS};

	for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
		write_to(5, 0, steps[i]);
		ip_observer_look(r.collector);
		assert_int_equal(told.records, steps[i] - 1 - (IP_EXT_WORDS - 1));
		assert_int_equal(told.nbehind, 0);
		assert_true(told.now <= ip_clock_now());
		ip_observer_look(r.collector);
		assert_int_equal(told.records, steps[i] - 1 - (IP_EXT_WORDS - 1));
	}
	/* the drain takes it, and there is nothing to tell; then the next one begins */
	fake_thread_leave(&r, SLOT, 0);
	r.area->subbufs[5].state = IP_SUBBUF_FULL;
	assert_int_equal(ip_drain_full(r.collector, false), 1);
	assert_int_equal(told.records, EVENTS);
	write_to(6, 1, 10);
	ip_observer_look(r.collector);
	assert_int_equal(told.records, EVENTS + 10 - IP_EXT_WORDS);
}

/* What was not looked at before is told when the drain takes it. */
static void test_with_the_drain(void **state)
{
	write_to(5, 0, 50);
	ip_observer_look(r.collector);
	write_to(5, 0, IP_SUBBUF_WORDS);
	fake_thread_leave(&r, SLOT, 0);
	r.area->subbufs[5].state = IP_SUBBUF_FULL;
	/* the thread goes on: what it writes now has its turn when the drain has come so far */
	write_to(6, 1, 20);
	ip_observer_look(r.collector);
	assert_int_equal(told.records, 50 - IP_EXT_WORDS);
	assert_int_equal(told.nbehind, 1);
	assert_true(told.behind[0].full);
	assert_int_equal(told.behind[0].words, IP_SUBBUF_WORDS - 50 + 20);
	assert_int_equal(told.behind[0].newest, TIME + 50 - IP_EXT_WORDS - 1);
	assert_int_equal(ip_drain_full(r.collector, false), 1);
	assert_int_equal(told.records, EVENTS);
	ip_observer_look(r.collector);
	assert_int_equal(told.records, EVENTS + 20 - IP_EXT_WORDS);
	assert_int_equal(told.nbehind, 0);
}

/* A hook is in flight: it has reserved a word and not filled it. */
static void test_a_hook_in_flight(void **state)
{
	uint64_t *words = fake_words(&r, 5), word;

	write_to(5, 0, 20);
	word = words[19];
	words[19] = 0;
	r.area->slots[SLOT].guard = 0x7000;
	for (int i = 0; i < 3; i++) {
		ip_observer_look(r.collector);
		assert_int_equal(told.records, 19 - IP_EXT_WORDS);
		assert_int_equal(told.nbehind, 1);
		assert_false(told.behind[0].full);
		assert_int_equal(told.behind[0].words, 1);
		assert_int_equal(told.behind[0].newest, TIME + 19 - IP_EXT_WORDS - 1);
	}
	words[19] = word;
	ip_observer_look(r.collector);
	assert_int_equal(told.records, 20 - IP_EXT_WORDS);
	/* it may still have read the clock for another one */
	assert_int_equal(told.nbehind, 1);
	assert_int_equal(told.behind[0].words, 0);
	r.area->slots[SLOT].guard = 0;
	ip_observer_look(r.collector);
	assert_int_equal(told.nbehind, 0);
	assert_int_equal(told.records, 20 - IP_EXT_WORDS);
}

static bool stop;

/* A thread that writes a record again and again, in hooks of no length. */
static void *keep_writing(void *position)
{
	const uint64_t before = *(uint64_t *)position;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		__atomic_store_n(&r.area->slots[SLOT].cur, before, __ATOMIC_RELEASE);
		__atomic_store_n(&r.area->slots[SLOT].cur, before + 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* The guard was seen 0 behind a hook that has come and gone since the position was read. */
static void test_a_hook_between(void **state)
{
	const uint64_t limit = ip_now_ns() + 20000000000ull;
	uint64_t position;
	pthread_t thread;

	write_to(5, 0, 21);
	ip_observer_look(r.collector);
	assert_int_equal(told.records, 21 - IP_EXT_WORDS);
	assert_int_equal(told.nbehind, 0);
	position = r.area->slots[SLOT].cur - 1;
	assert_int_equal(pthread_create(&thread, NULL, keep_writing, &position), 0);
	while (!told.nbehind && ip_now_ns() < limit)
		ip_observer_look(r.collector);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	assert_int_equal(told.nbehind, 1);
	assert_int_equal(told.behind[0].words, 0);
	assert_false(told.behind[0].full);
	ip_observer_look(r.collector);
	assert_int_equal(told.nbehind, 0);
}

/* The slot says anything: nothing outside of the area is read. */
static void test_a_slot_that_lies(void **state)
{
	static const uint64_t lies[] = {0, 5, 15, 16, 31, 32, 77, 0x7fff, 0xfffe, 0xffff};

	for (size_t i = 0; i < N_ELEMENTS(lies); i++)
		for (size_t k = 0; k < 48; k++) {
			r.area->slots[SLOT].cur = lies[i] << IP_POSITION_BITS | (1ull << k);
			ip_observer_look(r.collector);
		}
	assert_int_equal(told.records, 0);
}

static void test_ends(void **state)
{
	write_to(5, 0, 20);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 100), 0);
	assert_int_equal(told.records, 20 - IP_EXT_WORDS);
	assert_int_equal(told.ended, 1);
	ip_drain_release(r.collector, SLOT);
	/* the slot has another thread */
	fake_thread_claim(&r, SLOT, TID);
	r.area->slots[SLOT].claimed++;
	told.next = TIME;
	write_to(7, 0, 10);
	ip_observer_look(r.collector);
	assert_int_equal(told.records, 20 + 10 - 2 * IP_EXT_WORDS);
	/* it lives on when the recording ends */
	assert_int_equal(ip_drain_slot(r.collector, SLOT, IP_LIVES), 0);
	assert_int_equal(told.ended, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_as_soon_as_written, begin, end),
		cmocka_unit_test_setup_teardown(test_with_the_drain, begin, end),
		cmocka_unit_test_setup_teardown(test_a_hook_in_flight, begin, end),
		cmocka_unit_test_setup_teardown(test_a_hook_between, begin, end),
		cmocka_unit_test_setup_teardown(test_a_slot_that_lies, begin, end),
		cmocka_unit_test_setup_teardown(test_ends, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
