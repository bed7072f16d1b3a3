/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that overwrite: what rings hold is written when it is asked for, and each event is
 * either written, or overwritten, or lost.
 */
#include <stdlib.h>
#include <unistd.h>

#include "collector/collector_private.h"
#include "common/elf/probe_list.h"
#include "test/unit/fake_recording.h"
#include "test/unit/test.h"

#define SLOT	  2
#define TIME	  (1ull << 40)
#define EVENTS	  (IP_SUBBUF_ROOM - IP_EXT_WORDS + 1) /* in a sub-buffer that is full of them */
#define SECOND_NS 1000000000ull

static struct fake_recording r, copy;

static int begin(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20, .modes = IP_MODE_OVERWRITE};

	(void)state;
	fake_recording_begin(&r, &needs, 1 << 30);
	fake_recording_begin(&copy, &needs, 1 << 30); /* for its trace */
	assert_int_equal(ip_collector_overwrite(r.collector), 0);
	fake_thread_claim(&r, SLOT, 77);
	return 0;
}

static int end(void **state)
{
	(void)state;
	fake_recording_end(&r);
	fake_recording_end(&copy);
	return 0;
}

/* Of the ordinal-th sub-buffer: full, with words that are no event counted as hooks do. */
static void put_full(uint32_t slot, uint32_t subbuf, uint64_t ordinal)
{
	fake_thread_take(&r, slot, subbuf, ordinal, IP_SUBBUF_WORDS);
	fake_fill(fake_words(&r, subbuf), IP_SUBBUF_WORDS, TIME + ordinal * IP_SUBBUF_WORDS);
	fake_thread_leave(&r, slot, ordinal);
	r.area->subbufs[subbuf].state = IP_SUBBUF_FULL;
	r.area->subbufs[subbuf].surplus = IP_EXT_WORDS - 1;
}

/* And one that its thread is in, with events up to word n. */
static void put_current(uint32_t slot, uint32_t subbuf, uint64_t ordinal, uint32_t n)
{
	fake_thread_take(&r, slot, subbuf, ordinal, n);
	fake_fill(fake_words(&r, subbuf), n, TIME + ordinal * IP_SUBBUF_WORDS);
	r.area->subbufs[subbuf].surplus = IP_EXT_WORDS - 1;
}

static struct ip_flight_recorder_counts snapshot_since(uint64_t since)
{
	struct ip_flight_recorder_counts counts;

	if (ip_collector_snapshot(r.collector, copy.trace, since, &counts) < 0)
		fail_msg("%s", ip_error_message());
	return counts;
}

static struct ip_flight_recorder_counts snapshot(void)
{
	return snapshot_since(0);
}

static struct ip_collector_stats stats(void)
{
	struct ip_collector_stats s;

	ip_collector_stats(r.collector, &s);
	return s;
}

/* Threads keep what they have while they live. */
static void test_nothing_is_drained(void **state)
{
	(void)state;
	put_full(SLOT, 3, 0);
	put_full(SLOT, 4, 1);
	assert_int_equal(ip_drain_full(r.collector, false), 0);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_FULL);
	assert_int_equal(stats().events, 0);
	assert_int_equal(stats().pending, 2 * IP_SUBBUF_ROOM);
}

static void test_snapshots(void **state)
{
	struct ip_flight_recorder_counts counts;
	struct ip_packet_header h;

	(void)state;
	/* three were overwritten, with 1000 events all together */
	r.area->slots[SLOT].tail = IP_TAIL(3, 1000);
	r.area->slots[SLOT].lost = 2;
	put_full(SLOT, 5, 3);
	put_full(SLOT, 4, 4);
	r.area->slots[SLOT].lost = 7;
	fake_words(&r, 4)[10] = 0;
	fake_words(&r, 4)[11] = 6;
	put_current(SLOT, 3, 5, 100);
	counts = snapshot();
	assert_int_equal(counts.events, 2 * EVENTS - 2 + 97);
	assert_int_equal(counts.overwritten, 1000);
	assert_int_equal(counts.lost, 7 + 1);
	assert_int_equal(counts.invalid, 1);
	assert_int_equal(counts.torn, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(fake_packet(&copy, SLOT, i, &h));
		assert_int_equal(h.timestamp_begin, TIME + (3 + i) * IP_SUBBUF_WORDS);
		assert_int_equal(h.events_discarded, 1000 + (i ? i == 1 ? 2 + 1 : 7 + 1 : 2));
	}
	assert_false(fake_packet(&copy, SLOT, 3, &h));
	/* the ring is as it was */
	assert_int_equal(r.area->subbufs[5].state, IP_SUBBUF_FULL);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_OWNED);
	assert_int_equal(snapshot().events, counts.events);
	assert_int_equal(stats().events, 0);
}

/* What has ended before a time is left out; what may have something from then on is there. */
static void test_since(void **state)
{
	struct ip_flight_recorder_counts counts;
	struct ip_packet_header h;

	(void)state;
	r.area->slots[SLOT].tail = IP_TAIL(3, 1000);
	put_full(SLOT, 5, 3);
	put_full(SLOT, 4, 4);
	r.area->slots[SLOT].lost = 7;
	put_current(SLOT, 3, 5, 100);
	/* in the second one */
	counts = snapshot_since(TIME + 4 * IP_SUBBUF_WORDS + 1);
	assert_int_equal(counts.events, EVENTS + 97);
	assert_int_equal(counts.overwritten, 1000);
	assert_int_equal(counts.lost, 7);
	assert_true(fake_packet(&copy, SLOT, 0, &h));
	assert_int_equal(h.timestamp_begin, TIME + 4 * IP_SUBBUF_WORDS);
	assert_int_equal(h.events_discarded, 1000);
	/* where the next one begins just then, an event of the one before may have the same time */
	assert_int_equal(snapshot_since(TIME + 4 * IP_SUBBUF_WORDS).events, 2 * EVENTS + 97);
	assert_int_equal(snapshot_since(TIME + 9 * IP_SUBBUF_WORDS).events, 97);
	/* Its first words tell no time: a hook is between the two that do, or the target has
	 * written one. All of it is invalid then, and the one before it is there. */
	for (unsigned word = 2; word > 0; word--) {
		const uint64_t was = fake_words(&r, 4)[word];

		fake_words(&r, 4)[word] = 0;
		assert_int_equal(snapshot_since(TIME + 4 * IP_SUBBUF_WORDS + 1).events,
				 EVENTS + 97);
		assert_true(fake_packet(&copy, SLOT, word == 2 ? 6 : 8, &h));
		assert_int_equal(h.timestamp_begin, TIME + 3 * IP_SUBBUF_WORDS);
		fake_words(&r, 4)[word] = was;
	}
	/* of threads that have ended as well */
	ip_drain_meet(r.collector, SLOT);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 99999), 0);
	ip_drain_release(r.collector, SLOT);
	assert_int_equal(snapshot_since(TIME + 5 * IP_SUBBUF_WORDS).events, 97);
}

/* A hook may still come back and fill its word, while the sub-buffer is not full. */
static void test_words_that_may_be_filled(void **state)
{
	struct ip_flight_recorder_counts counts;

	(void)state;
	put_current(SLOT, 3, 0, 100);
	fake_words(&r, 3)[50] = 0;
	counts = snapshot();
	assert_int_equal(counts.events, 96);
	assert_int_equal(counts.lost, 0);
}

/* The oldest ones were overwritten between the copy and the look at the tail: what was copied as a
 * whole is written, and is not among the overwritten. */
static void test_overwritten_after_the_copy(void **state)
{
	struct ip_flight_recorder_counts counts;
	struct ip_packet_header h;

	(void)state;
	put_full(SLOT, 3, 0);
	put_full(SLOT, 4, 1);
	put_current(SLOT, 5, 2, 100);
	r.area->slots[SLOT].tail = IP_TAIL(1, EVENTS);
	counts = snapshot();
	assert_int_equal(counts.events, 2 * EVENTS + 97);
	assert_int_equal(counts.overwritten, 0);
	assert_true(fake_packet(&copy, SLOT, 0, &h));
	assert_int_equal(h.events_discarded, 0);
}

/* One that was copied in part was overwritten with more in it: it and all before it are left out,
 * and what they had is among the overwritten alone. */
static void test_torn_ones(void **state)
{
	struct ip_flight_recorder_counts counts;
	struct ip_packet_header h;

	(void)state;
	put_full(SLOT, 3, 0);
	fake_words(&r, 3)[10] = 0;
	fake_words(&r, 3)[11] = 6;
	put_current(SLOT, 4, 1, 100);
	r.area->subbufs[4].state = IP_SUBBUF_OWNED;
	put_full(SLOT, 5, 2);
	fake_words(&r, 5)[10] = 0;
	r.area->slots[SLOT].tail = IP_TAIL(2, 2 * EVENTS);
	counts = snapshot();
	assert_int_equal(counts.torn, 1);
	assert_int_equal(counts.events, EVENTS - 1);
	assert_int_equal(counts.overwritten, 2 * EVENTS);
	assert_int_equal(counts.lost, 1);
	assert_int_equal(counts.invalid, 0);
	assert_true(fake_packet(&copy, SLOT, 0, &h));
	assert_int_equal(h.events_discarded, 2 * EVENTS + 1);
	assert_false(fake_packet(&copy, SLOT, 1, &h));
}

/* What ended threads leave is kept, the oldest of it as long as there is memory, and written at the
 * end. */
static void test_threads_that_end(void **state)
{
	struct ip_packet_header h;

	(void)state;
	r.area->slots[SLOT].tail = IP_TAIL(1, 500);
	put_full(SLOT, 3, 1);
	put_current(SLOT, 4, 2, 100);
	r.area->slots[SLOT].lost = 3;
	ip_drain_meet(r.collector, SLOT);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 9999), 0);
	ip_drain_release(r.collector, SLOT);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_FREE);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_FREE);
	assert_int_equal(stats().events, 0);
	assert_int_equal(stats().pending, EVENTS + 97);
	assert_int_equal(stats().overwritten, 500);
	/* the next in the slot */
	fake_thread_claim(&r, SLOT, 78);
	put_current(SLOT, 3, 0, 50);
	r.area->slots[SLOT].tail = IP_TAIL(0, 0);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 99999), 0);
	ip_drain_release(r.collector, SLOT);
	assert_int_equal(ip_collector_finish(r.collector), 0);
	assert_int_equal(stats().events, EVENTS + 97 + 47);
	assert_int_equal(stats().lost, 3);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.events_discarded, 500);
	assert_int_equal(h.tid, 77);
	assert_true(fake_packet(&r, SLOT, 1, &h));
	assert_true(fake_packet(&r, SLOT, 2, &h)); /* the losses, */
	assert_int_equal(h.events_discarded, 503);
	assert_true(fake_packet(&r, SLOT, 3, &h)); /* and the end */
	assert_int_equal(h.content_size, 8 * sizeof(h));
	assert_true(fake_packet(&r, SLOT, 4, &h));
	assert_int_equal(h.tid, 78);
	assert_int_equal(h.events_discarded, 503);
}

/* The trace has no room for all that was kept: the oldest goes, and is overwritten. */
static void test_more_than_fits(void **state)
{
	struct ip_packet_header h;

	(void)state;
	put_full(SLOT, 3, 0);
	put_full(SLOT, 4, 1);
	ip_drain_meet(r.collector, SLOT);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME), 0);
	ip_drain_release(r.collector, SLOT);
	r.collector->max_size = 50000;
	assert_int_equal(ip_collector_finish(r.collector), 0);
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(stats().overwritten, EVENTS);
	assert_int_equal(stats().lost, 0);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.timestamp_begin, TIME + IP_SUBBUF_WORDS);
	assert_int_equal(h.events_discarded, EVENTS);
}

/* A suspect one that its thread has given up is the collector's, and stays out of use for a while;
 * one that a thread has left is handed over. */
static void test_left_ones(void **state)
{
	uint64_t since;

	(void)state;
	put_full(SLOT, 3, 0);
	r.area->subbufs[3].state = IP_SUBBUF_LEFT;
	r.area->subbufs[3].slot = IP_NO_SLOT;
	r.area->subbufs[3].suspect = 1;
	put_full(SLOT, 4, 1);
	r.area->subbufs[4].state = IP_SUBBUF_OWNED;
	/* the same, of a thread with a hook in flight */
	fake_thread_claim(&r, SLOT + 1, 78);
	put_full(SLOT + 1, 5, 0);
	r.area->subbufs[5].state = IP_SUBBUF_OWNED;
	r.area->slots[SLOT + 1].guard = 0x7000;
	/* and one that was never used */
	fake_thread_take(&r, SLOT, 6, 1, 1);
	fake_thread_leave(&r, SLOT, 1);
	ip_flight_recorder_share(r.collector);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_TAKEN);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_FULL);
	assert_int_equal(r.area->subbufs[5].state, IP_SUBBUF_OWNED);
	assert_int_equal(r.area->subbufs[6].state, IP_SUBBUF_FREE);
	since = r.collector->suspended[3];
	assert_int_not_equal(since, 0);
	ip_flight_recorder_share(r.collector);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_TAKEN);
	assert_int_equal(r.collector->suspended[3], since);
	ip_drain_end_suspensions(r.collector, since + SECOND_NS + 1);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_FREE);
}

/* A thread that came late needs memory: who has most gives its oldest, and their events are counted
 * as overwritten. */
static void test_shares(void **state)
{
	const uint32_t all = r.area->nsubbufs, rich = all - 2;
	uint32_t moved;

	(void)state;
	for (uint32_t i = 0; i < rich; i++)
		put_full(SLOT, i, i);
	fake_thread_claim(&r, SLOT + 1, 78);
	put_full(SLOT + 1, rich, 4);
	r.area->slots[SLOT + 1].tail = IP_TAIL(4, 4 * EVENTS); /* it writes its own over already */
	put_current(SLOT + 1, rich + 1, 5, 100);
	r.area->header->nfree = 0;
	ip_flight_recorder_share(r.collector);
	moved = (uint32_t)(r.area->slots[SLOT].tail >> IP_POSITION_BITS);
	assert_in_range(moved, 1, all / 8 + 1);
	assert_int_equal(IP_TAIL_EVENTS(r.area->slots[SLOT].tail), moved * EVENTS);
	for (uint32_t i = 0; i < rich; i++)
		assert_int_equal(r.area->subbufs[i].state,
				 i < moved ? IP_SUBBUF_FREE : IP_SUBBUF_FULL);
	assert_int_equal(r.area->header->nfree, moved);
	assert_int_equal(stats().overwritten, (moved + 4) * EVENTS);
	assert_in_range(r.area->header->share, 3, all - 3);
	/* what is free is enough: nobody gives more */
	r.area->header->nfree = all / 2;
	ip_flight_recorder_share(r.collector);
	assert_int_equal(r.area->slots[SLOT].tail >> IP_POSITION_BITS, moved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_nothing_is_drained, begin, end),
		cmocka_unit_test_setup_teardown(test_snapshots, begin, end),
		cmocka_unit_test_setup_teardown(test_since, begin, end),
		cmocka_unit_test_setup_teardown(test_words_that_may_be_filled, begin, end),
		cmocka_unit_test_setup_teardown(test_overwritten_after_the_copy, begin, end),
		cmocka_unit_test_setup_teardown(test_torn_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_threads_that_end, begin, end),
		cmocka_unit_test_setup_teardown(test_more_than_fits, begin, end),
		cmocka_unit_test_setup_teardown(test_left_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_shares, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
