/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining: which sub-buffers are taken and when, what becomes of them, and that every word that is
 * no event is counted once.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "collector/collector_private.h"
#include "common/clock.h"
#include "common/elf/probe_list.h"
#include "common/now.h"
#include "test/unit/fake_recording.h"
#include "test/unit/test.h"

#define SLOT	   2
#define TIME	   (1ull << 40)
#define EVENTS	   (IP_SUBBUF_ROOM - IP_EXT_WORDS + 1) /* in a sub-buffer that is full of them */
#define SECOND_NS  1000000000ull
#define MANY_BYTES (1ull << 30)

static struct fake_recording r;
static struct rlimit largest_file; /* as it was */

static int begin(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};

	(void)state;
	getrlimit(RLIMIT_FSIZE, &largest_file);
	fake_recording_begin(&r, &needs, MANY_BYTES);
	fake_thread_claim(&r, SLOT, 77);
	return 0;
}

static int end(void **state)
{
	(void)state;
	setrlimit(RLIMIT_FSIZE, &largest_file);
	fake_recording_end(&r);
	return 0;
}

static void begin_anew(uint64_t max_size)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};

	fake_recording_end(&r);
	fake_recording_begin(&r, &needs, max_size);
	fake_thread_claim(&r, SLOT, 77);
}

/* The slot's thread has filled the sub-buffer and handed it over. */
static void put_full(uint32_t subbuf, uint64_t ordinal)
{
	fake_thread_take(&r, SLOT, subbuf, ordinal, IP_SUBBUF_WORDS);
	fake_fill(fake_words(&r, subbuf), IP_SUBBUF_WORDS, TIME + ordinal * IP_SUBBUF_WORDS);
	fake_thread_leave(&r, SLOT, ordinal);
	r.area->subbufs[subbuf].state = IP_SUBBUF_FULL;
}

static int drain(void)
{
	return ip_drain_full(r.collector, false);
}

static struct ip_collector_stats stats(void)
{
	struct ip_collector_stats s;

	ip_collector_stats(r.collector, &s);
	return s;
}

static void assert_free(uint32_t subbuf)
{
	assert_int_equal(r.area->subbufs[subbuf].state, IP_SUBBUF_FREE);
	assert_int_equal(r.area->subbufs[subbuf].slot, IP_NO_SLOT);
	for (unsigned i = 0; i < IP_SUBBUF_WORDS; i++)
		assert_int_equal(fake_words(&r, subbuf)[i], 0);
}

static void test_full_ones(void **state)
{
	struct ip_packet_header h;
	int32_t nfree;

	(void)state;
	assert_int_equal(drain(), 0);
	put_full(5, 0);
	nfree = r.area->header->nfree;
	r.area->header->hint = 9;
	assert_int_equal(drain(), 1);
	assert_free(5);
	assert_int_equal(r.area->header->nfree, nfree + 1);
	assert_int_equal(r.area->header->hint, 5);
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(stats().lost + stats().invalid, 0);
	assert_int_equal(stats().threads, 1);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.timestamp_begin, TIME);
	assert_int_equal(h.timestamp_end, TIME + EVENTS - 1);
	assert_int_equal(h.content_size, 8 * (sizeof(h) + 8 * IP_SUBBUF_ROOM));
	assert_int_equal(h.events_discarded, 0);
	assert_int_equal(h.tid, 77);
	assert_false(fake_packet(&r, SLOT, 1, &h));
	assert_int_equal(drain(), 0);
}

/* The sub-buffer in which its thread is writing stays; one that it has left goes when no hook of it
 * is in flight. */
static void test_owned_ones(void **state)
{
	(void)state;
	fake_thread_take(&r, SLOT, 3, 0, 100);
	fake_fill(fake_words(&r, 3), 100, TIME);
	assert_int_equal(drain(), 0);
	/* it is full, and its thread is still in it */
	fake_thread_take(&r, SLOT, 3, 0, IP_SUBBUF_WORDS);
	fake_fill(fake_words(&r, 3), IP_SUBBUF_WORDS, TIME);
	assert_int_equal(drain(), 0);
	fake_thread_leave(&r, SLOT, 0);
	r.area->slots[SLOT].guard = 0x7000;
	assert_int_equal(drain(), 0);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_OWNED);
	r.area->slots[SLOT].guard = 0;
	assert_int_equal(drain(), 1);
	assert_free(3);
	assert_int_equal(stats().events, EVENTS);
	/* it has just been taken, by a hook that has not moved the slot yet */
	fake_thread_take(&r, SLOT, 4, 1, 100);
	fake_thread_leave(&r, SLOT, 0);
	assert_int_equal(drain(), 0);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_OWNED);
}

/* A guard that stays set for long is that of a handler which left by longjmp, or of a hook which
 * is held up: the sub-buffer is taken, and nobody gets it for a while. */
static void test_suspect_ones(void **state)
{
	int32_t nfree;
	uint64_t now;

	(void)state;
	put_full(3, 0);
	r.area->subbufs[3].state = IP_SUBBUF_OWNED;
	nfree = r.area->header->nfree;
	r.area->slots[SLOT].guard = 0x7000;
	assert_int_equal(drain(), 0);
	assert_int_equal(r.collector->slots[SLOT].guard, 0x7000);
	/* another hook since: the time begins anew */
	r.collector->slots[SLOT].guard_since -= SECOND_NS;
	r.area->slots[SLOT].guard = 0x7010;
	assert_int_equal(drain(), 0);
	assert_int_equal(drain(), 0);
	r.collector->slots[SLOT].guard_since -= SECOND_NS;
	assert_int_equal(drain(), 1);
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(r.area->subbufs[3].suspect, 1);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_TAKEN);
	assert_int_equal(r.area->subbufs[3].slot, IP_NO_SLOT);
	assert_int_equal(r.area->header->nfree, nfree);
	/* the hook comes back, and fills its word */
	fake_words(&r, 3)[100] = 0x123;
	now = r.collector->suspended[3];
	assert_int_not_equal(now, 0);
	ip_drain_end_suspensions(r.collector, now + SECOND_NS);
	assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_TAKEN);
	ip_drain_end_suspensions(r.collector, now + SECOND_NS + 1);
	assert_free(3);
	assert_int_equal(r.area->header->nfree, nfree + 1);
	ip_drain_end_suspensions(r.collector, now + 9 * SECOND_NS);
	assert_int_equal(r.area->header->nfree, nfree + 1);
}

static void put_left(uint32_t subbuf, uint64_t ordinal)
{
	put_full(subbuf, ordinal);
	r.area->subbufs[subbuf].state = IP_SUBBUF_OWNED;
}

/* While handlers follow each other, the hook below them does not get on. A word that it has
 * reserved is waited for, and no other sub-buffer of the thread overtakes it. */
static void test_unfilled_ones(void **state)
{
	uint64_t *w;

	(void)state;
	put_left(3, 0);
	put_left(4, 1);
	w = fake_words(&r, 3);
	w[100] = 0;
	r.area->slots[SLOT].guard = 0x7000;
	assert_int_equal(drain(), 0);
	r.collector->slots[SLOT].guard_since -= SECOND_NS;
	assert_int_equal(drain(), 0);
	assert_int_equal(stats().events, 0);
	/* the hook has filled its word, and is still in flight */
	w[100] = w[99] + (1 << 3);
	assert_int_equal(drain(), 2);
	assert_int_equal(stats().events, 2 * EVENTS);
	assert_int_equal(stats().lost, 0);
	/* it never comes back */
	put_left(5, 2);
	put_left(6, 3);
	fake_words(&r, 5)[100] = 0;
	assert_int_equal(drain(), 0);
	r.collector->slots[SLOT].guard_since -= 5 * SECOND_NS;
	assert_int_equal(drain(), 2);
	assert_int_equal(stats().events, 4 * EVENTS - 1);
	assert_int_equal(stats().lost, 1);
	assert_int_equal(stats().unfinished, 1);
}

/* Memory is short, the thread has ended, or nothing runs any more: there is no waiting. */
static void test_unfilled_ones_are_taken_at_once(void **state)
{
	uint8_t gone[IP_AREA_SLOTS] = {0};

	(void)state;
	put_left(3, 0);
	fake_words(&r, 3)[100] = 0;
	r.area->slots[SLOT].guard = 0x7000;
	assert_int_equal(drain(), 0);
	r.collector->slots[SLOT].guard_since -= SECOND_NS;
	assert_int_equal(drain(), 0);
	r.area->header->nfree = r.area->nsubbufs / 4 - 1;
	assert_int_equal(drain(), 1);
	r.area->header->nfree = r.area->nsubbufs;
	put_left(4, 1);
	fake_words(&r, 4)[100] = 0;
	assert_int_equal(drain(), 0);
	gone[SLOT] = 1;
	r.collector->gone = gone;
	assert_int_equal(drain(), 1);
	r.collector->gone = NULL;
	put_left(5, 2);
	fake_words(&r, 5)[100] = 0;
	assert_int_equal(drain(), 0);
	assert_int_equal(ip_drain_full(r.collector, true), 1);
	assert_int_equal(stats().unfinished, 3);
}

/* Nobody else's is touched, whatever the descriptors say. */
static void test_other_states(void **state)
{
	static const uint32_t states[] = {IP_SUBBUF_FREE, IP_SUBBUF_TAKEN, IP_SUBBUF_LEFT, 99};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(states); i++) {
		put_full(3, 0);
		r.area->subbufs[3].state = states[i];
		assert_int_equal(drain(), 0);
		assert_int_equal(r.area->subbufs[3].state, states[i]);
		assert_int_not_equal(fake_words(&r, 3)[1], 0);
	}
	/* of a slot that nobody has claimed, that is no slot, or beyond those in use */
	put_full(3, 0);
	r.area->slots[SLOT].state = IP_SLOT_LATE;
	assert_int_equal(drain(), 0);
	r.area->slots[SLOT].state = IP_SLOT_CLAIMED;
	r.area->subbufs[3].slot = IP_NO_SLOT;
	assert_int_equal(drain(), 0);
	r.area->subbufs[3].slot = SLOT + 1;
	assert_int_equal(drain(), 0);
	r.area->subbufs[3].slot = SLOT;
	assert_int_equal(drain(), 1);
}

static void test_order(void **state)
{
	struct ip_packet_header h;

	(void)state;
	put_full(4, 1);
	assert_int_equal(drain(), 0);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_FULL);
	put_full(7, 0);
	put_full(2, 2);
	assert_int_equal(drain(), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(fake_packet(&r, SLOT, i, &h));
		assert_int_equal(h.packet_seq_num, i);
		assert_int_equal(h.timestamp_begin, TIME + i * IP_SUBBUF_WORDS);
	}
	/* a number that was before, and one that is not yet: the target's own fault */
	put_full(4, 1);
	put_full(7, 9);
	assert_int_equal(drain(), 0);
	assert_int_equal(stats().events, 3 * EVENTS);
}

/* A signal handler was faster: the hook below it has taken a sub-buffer that it never used. */
static void test_one_that_was_never_used(void **state)
{
	(void)state;
	fake_thread_take(&r, SLOT, 3, 0, 1);
	put_full(4, 0);
	assert_int_equal(drain(), 1);
	assert_free(3);
	assert_free(4);
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(stats().lost + stats().invalid, 0);
}

/* Each word that is no event is counted: those that no hook has filled as lost, all others as
 * invalid. */
static void test_lost_and_invalid_words(void **state)
{
	uint64_t *w;
	struct ip_packet_header h;

	(void)state;
	put_full(3, 0);
	w = fake_words(&r, 3);
	w[10] = 0;			    /* lost: one event */
	w[20] = w[21] = w[22] = 0;	    /* lost: one event of three words */
	w[30] = w[31] = 0;		    /* lost: two events */
	w[40] = 8;			    /* padding */
	w[50] = 5ull << 3 | IP_PROBE_ENTRY; /* no number */
	w[60] = 6;			    /* no kind, and no number */
	w[70] = IP_ID_EXTENDED;		    /* an extended record that is none */
	r.area->slots[SLOT].lost = 11;	    /* since: not before this sub-buffer */
	r.area->subbufs[3].lost = 7;
	assert_int_equal(drain(), 1);
	assert_int_equal(stats().invalid, 3);
	assert_int_equal(stats().lost, 11 + 4);
	assert_int_equal(stats().events, EVENTS - 1 - 3 - 2 - 1 - 3);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.events_discarded, 7 + 4);
	/* the next one has the losses before it, and those of its own */
	put_full(4, 1);
	fake_words(&r, 4)[10] = 0;
	assert_int_equal(drain(), 1);
	assert_true(fake_packet(&r, SLOT, 1, &h));
	assert_int_equal(h.events_discarded, 11 + 5);
	assert_int_equal(stats().lost, 11 + 5);
	/* the target makes its losses smaller: what was told stays told */
	put_full(5, 2);
	r.area->subbufs[5].lost = 0;
	assert_int_equal(drain(), 1);
	assert_true(fake_packet(&r, SLOT, 2, &h));
	assert_int_equal(h.events_discarded, 11 + 5);
}

/* Nothing in it is an event: no packet, and it goes on behind it. */
static void test_words_without_a_record(void **state)
{
	struct ip_packet_header h;

	(void)state;
	put_full(3, 0);
	for (unsigned i = 1; i < IP_SUBBUF_WORDS; i++)
		fake_words(&r, 3)[i] = 6;
	put_full(4, 1);
	assert_int_equal(drain(), 2);
	assert_int_equal(stats().invalid, IP_SUBBUF_ROOM);
	assert_int_equal(stats().events, EVENTS);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.timestamp_begin, TIME + IP_SUBBUF_WORDS);
	assert_false(fake_packet(&r, SLOT, 1, &h));
}

/* A thread ends: what it has written of its current sub-buffer, then its losses, then its end. */
static void test_the_end_of_a_thread(void **state)
{
	struct ip_packet_header h;

	(void)state;
	fake_thread_take(&r, SLOT, 3, 0, 100);
	fake_fill(fake_words(&r, 3), 200, TIME); /* behind the position: not yet there */
	fake_words(&r, 3)[50] = 0;
	r.area->slots[SLOT].lost = 5;
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 5000), 0);
	assert_free(3);
	assert_int_equal(stats().events, 96);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_int_equal(h.events_discarded, 1);
	assert_true(fake_packet(&r, SLOT, 1, &h));
	assert_int_equal(h.events_discarded, 6);
	assert_int_equal(h.content_size, 8 * sizeof(h));
	assert_int_equal(h.timestamp_begin, TIME + 5000);
	assert_true(fake_packet(&r, SLOT, 2, &h));
	assert_int_equal(h.events_discarded, 6);
	assert_int_equal(h.timestamp_begin, TIME + 5000);
	assert_true(h.timestamp_end > TIME + 5000);
	assert_false(fake_packet(&r, SLOT, 3, &h));
	ip_drain_release(r.collector, SLOT);
	assert_int_equal(r.area->slots[SLOT].state, IP_SLOT_FREE);
	assert_int_equal(r.area->slots[SLOT].lost, 0);
	assert_int_equal(stats().lost, 6);
	/* the next thread in the slot goes on in its stream, and its losses are added */
	fake_thread_claim(&r, SLOT, 78);
	fake_thread_take(&r, SLOT, 3, 0, 100);
	fake_fill(fake_words(&r, 3), 100, TIME + 10000);
	fake_words(&r, 3)[50] = 0;
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME + 20000), 0);
	assert_true(fake_packet(&r, SLOT, 3, &h));
	assert_int_equal(h.tid, 78);
	assert_int_equal(h.events_discarded, 6 + 1);
	assert_int_equal(stats().lost, 6 + 1);
	assert_int_equal(stats().threads, 2);
	assert_int_equal(stats().processes, 1);
}

/* A thread that is seen to live has no end; one of which nothing was written needs none. */
static void test_ends_that_are_not_told(void **state)
{
	struct ip_packet_header h;

	(void)state;
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME), 0);
	assert_false(fake_packet(&r, SLOT, 0, &h));
	/* full to the last word, and its thread has not left it */
	fake_thread_take(&r, SLOT, 3, 0, IP_SUBBUF_WORDS);
	fake_fill(fake_words(&r, 3), IP_SUBBUF_WORDS, TIME);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, IP_LIVES), 0);
	assert_int_equal(stats().events, EVENTS);
	assert_true(fake_packet(&r, SLOT, 0, &h));
	assert_false(fake_packet(&r, SLOT, 1, &h));
	/* the slot names a sub-buffer that is another's, or none */
	fake_thread_claim(&r, SLOT + 1, 78);
	r.area->slots[SLOT + 1].cur = 4ull << IP_POSITION_BITS | 50;
	put_full(4, 1);
	assert_int_equal(ip_drain_slot(r.collector, SLOT + 1, TIME), 0);
	r.area->slots[SLOT + 1].cur = 0xfffeull << IP_POSITION_BITS | 50;
	assert_int_equal(ip_drain_slot(r.collector, SLOT + 1, TIME), 0);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_FULL);
	assert_false(fake_packet(&r, SLOT + 1, 0, &h));
}

/* The sub-buffer that a thread's filters work in goes back with the slot; the number may be
 * anything. */
static void test_memory_of_filters(void **state)
{
	(void)state;
	r.area->subbufs[6] = (struct ip_subbuf){.state = IP_SUBBUF_OWNED, .slot = IP_NO_SLOT};
	fake_words(&r, 6)[1] = 1;
	r.area->slots[SLOT].memory = 7;
	r.area->slots[SLOT].filtered = 40;
	r.area->slots[SLOT].held = 2;
	ip_drain_meet(r.collector, SLOT);
	ip_drain_release(r.collector, SLOT);
	assert_free(6);
	assert_int_equal(stats().filtered, 42);
	/* one that is in use, and none at all */
	for (unsigned i = 0; i < 2; i++) {
		fake_thread_claim(&r, SLOT, 77);
		fake_thread_take(&r, SLOT, 3, 0, 100);
		fake_words(&r, 3)[1] = 1;
		r.area->slots[SLOT].memory = i ? UINT32_MAX : 4;
		ip_drain_meet(r.collector, SLOT);
		ip_drain_release(r.collector, SLOT);
		assert_int_equal(r.area->subbufs[3].state, IP_SUBBUF_OWNED);
		assert_int_equal(fake_words(&r, 3)[1], 1);
	}
}

/* Behind the limit of the trace's size events are counted, and none is written any more, not even
 * where a smaller packet would fit. */
static void test_the_limit_of_the_size(void **state)
{
	struct ip_packet_header h;

	(void)state;
	begin_anew(sizeof(h) + 8 * IP_SUBBUF_ROOM + 500);
	put_full(3, 0);
	put_full(4, 1);
	assert_int_equal(drain(), 2);
	assert_true(ip_collector_full(r.collector));
	assert_false(ip_collector_no_space(r.collector));
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(stats().lost, EVENTS);
	assert_free(4);
	fake_thread_take(&r, SLOT, 3, 2, 10);
	fake_fill(fake_words(&r, 3), 10, TIME + 2 * IP_SUBBUF_WORDS);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME), 0);
	assert_int_equal(stats().lost, EVENTS + 7);
	assert_false(fake_packet(&r, SLOT, 1, &h));
	/* all events fit, and only the word of the thread's end does not: nothing is missing */
	begin_anew(sizeof(h) + 8 * IP_SUBBUF_ROOM);
	put_full(3, 0);
	assert_int_equal(drain(), 1);
	assert_int_equal(ip_drain_slot(r.collector, SLOT, TIME), 0);
	assert_false(ip_collector_full(r.collector));
	assert_int_equal(stats().events, EVENTS);
	assert_int_equal(stats().lost, 0);
}

/* The same where the disk is full: the end of a file's size is as good. */
static void test_no_space(void **state)
{
	const struct rlimit limit = {20000, largest_file.rlim_max};
	struct ip_packet_header h;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	put_full(3, 0);
	assert_int_equal(drain(), 1);
	assert_true(ip_collector_full(r.collector));
	assert_true(ip_collector_no_space(r.collector));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &largest_file), 0);
	assert_int_equal(stats().events, 0);
	assert_int_equal(stats().lost, EVENTS);
	assert_free(3);
	/* there is room again: still nothing is written */
	put_full(3, 1);
	assert_int_equal(drain(), 1);
	assert_int_equal(stats().lost, 2 * EVENTS);
	assert_false(fake_packet(&r, SLOT, 0, &h));
}

/* Another iprobe goes on with the trace and the rings of one that was killed. */
static void begin_again(void)
{
	uint64_t max_size;

	assert_int_equal(ip_trace_sync(r.trace), 0);
	ip_collector_destroy(r.collector);
	ip_trace_close(r.trace);
	r.collector = NULL;
	r.trace = NULL;
	if (ip_trace_reopen(r.dir, getpid(), r.area->header->session, &r.trace, &max_size) < 0)
		fail_msg("%s", ip_error_message());
	assert_int_equal(max_size, MANY_BYTES);
	assert_int_equal(ip_collector_create(r.area, r.trace, r.target, max_size, &r.collector), 0);
	ip_collector_resume(r.collector);
}

/* What was written is not written again, and what was not is. */
static void test_one_that_was_killed(void **state)
{
	struct ip_packet_header h;

	(void)state;
	put_full(3, 0);
	fake_words(&r, 3)[10] = 0;
	r.area->subbufs[3].lost = r.area->slots[SLOT].lost = 4;
	assert_int_equal(drain(), 1);
	assert_int_equal(stats().lost, 4 + 1);
	/* killed before the sub-buffer was freed, while another was being freed, and before the
	 * next one was looked at */
	put_full(3, 0);
	put_full(4, 1);
	fake_thread_take(&r, SLOT + 1, 5, 0, IP_SUBBUF_WORDS);
	r.area->subbufs[5].state = IP_SUBBUF_TAKEN;
	r.area->header->nfree = 0;
	begin_again();
	assert_free(3);
	assert_free(5);
	assert_int_equal(r.area->subbufs[4].state, IP_SUBBUF_FULL);
	assert_int_equal(r.area->header->nfree, r.area->nsubbufs - 1);
	assert_int_equal(stats().events, EVENTS - 1);
	assert_int_equal(stats().lost, 4 + 1);
	assert_int_equal(drain(), 1);
	assert_int_equal(stats().events, 2 * EVENTS - 1);
	assert_true(fake_packet(&r, SLOT, 1, &h));
	assert_int_equal(h.packet_seq_num, 1);
	assert_int_equal(h.events_discarded, 4 + 1);
	assert_false(fake_packet(&r, SLOT, 2, &h));
	/* killed between the note of a thread's end and the freeing of its slot */
	ip_drain_release(r.collector, SLOT);
	r.area->slots[SLOT].state = IP_SLOT_CLAIMED;
	r.area->slots[SLOT].lost = 4;
	begin_again();
	assert_int_equal(r.area->slots[SLOT].state, IP_SLOT_FREE);
	assert_int_equal(stats().lost, 4 + 1);
	/* a thread that has taken the slot since keeps it */
	fake_thread_claim(&r, SLOT, 78);
	begin_again();
	assert_int_equal(r.area->slots[SLOT].state, IP_SLOT_CLAIMED);
}

/* What is counted without a slot, and what is still in rings. */
static void test_figures(void **state)
{
	(void)state;
	r.area->header->unserved = 9;
	fake_thread_take(&r, SLOT, 3, 0, 100);
	assert_int_equal(stats().unserved, 9);
	assert_int_equal(stats().lost, 9);
	assert_int_equal(stats().pending, 100);
	fake_thread_leave(&r, SLOT, 0);
	assert_int_equal(stats().pending, IP_SUBBUF_WORDS);
	/* with coarse time the position of nowhere is not at a sub-buffer's start */
	r.area->slots[SLOT].cur += IP_SUBBUF_WORDS - IP_SUBBUF_SPARE;
	assert_int_equal(stats().pending, IP_SUBBUF_WORDS);
	r.area->slots[SLOT].guard = 1;
	assert_true(ip_collector_in_flight(r.collector));
	r.area->slots[SLOT].state = IP_SLOT_FREE;
	assert_false(ip_collector_in_flight(r.collector));
	assert_int_equal(stats().pending, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_full_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_owned_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_suspect_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_unfilled_ones, begin, end),
		cmocka_unit_test_setup_teardown(test_unfilled_ones_are_taken_at_once, begin, end),
		cmocka_unit_test_setup_teardown(test_other_states, begin, end),
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_one_that_was_never_used, begin, end),
		cmocka_unit_test_setup_teardown(test_lost_and_invalid_words, begin, end),
		cmocka_unit_test_setup_teardown(test_words_without_a_record, begin, end),
		cmocka_unit_test_setup_teardown(test_the_end_of_a_thread, begin, end),
		cmocka_unit_test_setup_teardown(test_ends_that_are_not_told, begin, end),
		cmocka_unit_test_setup_teardown(test_memory_of_filters, begin, end),
		cmocka_unit_test_setup_teardown(test_the_limit_of_the_size, begin, end),
		cmocka_unit_test_setup_teardown(test_no_space, begin, end),
		cmocka_unit_test_setup_teardown(test_one_that_was_killed, begin, end),
		cmocka_unit_test_setup_teardown(test_figures, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
