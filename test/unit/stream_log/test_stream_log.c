/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of a live log: in order of time over all threads, and up to when they say that all is
 * there.
 */
#include <stdlib.h>
#include <unistd.h>

#include "analysis/stream_log/batch_reader.h"
#include "common/elf/probe_list.h"
#include "stream_log/record_order.h"
#include "stream_log/stream_log.h"
#include "test/unit/test.h"

#define HZ   1000000000ull
#define MS   (HZ / 1000)
#define TIME (1000 * HZ)

static char path[] = "/tmp/iprobe-log-XXXXXX";
static struct ip_stream_log *made;
static const struct ip_collector_observer *o;

static const struct ip_observer_claim claims[] = {{0, 1, 10, 5}, {3, 1, 11, 6}};

static int begin(void **state)
{
	strcpy(path + sizeof(path) - 7, "XXXXXX");
	close(mkstemp(path));
	assert_int_equal(ip_stream_log_open(path, IP_STREAM_LOG_MOST_NS, &made), 0);
	ip_stream_log_begin(made, HZ, NULL, NULL);
	o = ip_stream_log_observer(made);
	return 0;
}

static int end(void **state)
{
	ip_stream_log_destroy(made);
	unlink(path);
	return 0;
}

static void put(unsigned thread, uint64_t time)
{
	const struct ip_observer_record record = {
		.time = time, .sp = 0x7000, .number = 1, .kind = IP_PROBE_ENTRY};

	o->records(o->data, &claims[thread], &record, 1);
}

static void look(uint64_t now, unsigned thread, uint64_t newest, bool full)
{
	const struct ip_observer_behind behind = {
		.claim = claims[thread], .newest = newest, .words = 3, .full = full};

	o->looked(o->data, now, &behind, newest > 0);
}

/* What a reader finds. */
static struct {
	uint64_t times[64], complete, late, words, dropped, unsorted;
	size_t n;
	unsigned ended, threads;
	struct ip_stream_log_thread thread; /* the last one */
} found;

static void read_log(uint64_t now, struct ip_stream_log_counts *counts)
{
	const struct ip_stream_log_header *h;
	struct ip_batch_reader *r;
	uint64_t missing, before = 0;

	ip_stream_log_end(made, now, 10 * HZ, counts);
	made = NULL;
	memset(&found, 0, sizeof(found));
	assert_int_equal(ip_batch_reader_open(path, &r), 0);
	while (ip_batch_reader_next(r, &h, &missing) > 0) {
		struct ip_batch_section s = {0};

		assert_int_equal(missing, 0);
		found.words = 0;
		while (ip_batch_reader_section(r, &s)) {
			const struct ip_stream_log_record *records = (void *)(s.content + 8);
			uint64_t base;

			if (s.kind == IP_STREAM_LOG_BEHIND)
				found.words = ((struct ip_stream_log_behind *)s.content)->words;
			if (s.kind == IP_STREAM_LOG_UNSORTED)
				memcpy(&found.unsorted, s.content, sizeof(found.unsorted));
			if (s.kind == IP_STREAM_LOG_THREAD) {
				found.threads += s.size / sizeof(found.thread);
				memcpy(&found.thread, s.content + s.size - sizeof(found.thread),
				       sizeof(found.thread));
			}
			found.ended += s.kind == IP_STREAM_LOG_ENDED;
			if (s.kind != IP_STREAM_LOG_RECORDS)
				continue;
			memcpy(&base, s.content, sizeof(base));
			for (size_t i = 0; i < (s.size - 8) / sizeof(*records); i++) {
				const uint64_t time = base + records[i].after;

				/* what was said to be there already does not come later */
				assert_true(time >= before || h->late > i);
				assert_true(time < h->complete);
				if (found.n < N_ELEMENTS(found.times))
					found.times[found.n] = time;
				found.n++;
			}
		}
		assert_true(h->complete >= before);
		before = found.complete = h->complete;
		found.late += h->late;
		found.dropped = h->dropped;
	}
	ip_batch_reader_close(r);
}

static void test_order(void **state)
{
	struct ip_stream_log_counts counts;

	put(0, TIME + 1);
	put(0, TIME + 5);
	put(0, TIME + 9);
	put(1, TIME + 2);
	put(1, TIME + 6);
	look(TIME + 10, 0, 0, false);
	put(1, TIME + 11);
	look(TIME + 20, 0, 0, false);
	read_log(0, &counts);
	assert_int_equal(found.n, 6);
	for (size_t i = 1; i < found.n; i++)
		assert_true(found.times[i - 1] < found.times[i]);
	assert_int_equal(found.complete, TIME + 20);
	assert_int_equal(counts.records, 6);
	assert_int_equal(counts.dropped + counts.late + found.late, 0);
}

/* Of a thread nothing is known since a time: nothing after it is told as complete, for a while. */
static void test_held_back(void **state)
{
	struct ip_stream_log_counts counts;

	put(0, TIME + 1);
	put(1, TIME + MS);
	look(TIME + MS + 10, 0, TIME + 1, false);
	/* the hook ends, and its record is older than the other thread's */
	put(0, TIME + 2);
	look(TIME + MS + 20, 0, 0, false);
	/* another one takes longer than is waited for */
	put(1, TIME + 5 * MS);
	look(TIME + 8 * MS, 0, TIME + 2, false);
	put(0, TIME + 4 * MS);
	look(TIME + 8 * MS + 10, 0, 0, false);
	read_log(0, &counts);
	assert_int_equal(found.n, 5);
	assert_int_equal(found.times[1], TIME + 2);
	assert_int_equal(found.times[2], TIME + MS);
	assert_int_equal(counts.late, 1);
	assert_int_equal(found.late, 1);
}

/* How long it is waited, and that the last end mark tells of the thread. */
static void test_bounds(void **state)
{
	struct ip_stream_log_counts counts;

	put(0, TIME + 1);
	put(1, TIME + 15 * MS);
	look(TIME + 16 * MS, 0, TIME + 1, true);
	put(1, TIME + 25 * MS);
	look(TIME + 30 * MS, 0, TIME + 1, true);
	assert_int_equal(ip_stream_log_text(made, "a\nb\nrest", 8), 4);
	/* at the end what is held back is written; what claims to be of later than that is counted
	 */
	put(1, TIME + 60 * MS);
	read_log(TIME + 50 * MS, &counts);
	assert_int_equal(found.n, 3);
	assert_int_equal(counts.late, 0);
	assert_int_equal(counts.records, 3);
	assert_int_equal(counts.dropped, 1);
	assert_int_equal(found.complete, TIME + 50 * MS);
}

static void test_end_mark(void **state)
{
	const struct ip_stream_log_header *h;
	struct ip_batch_reader *r;
	uint64_t missing, complete = 0, words = 0;
	unsigned tries = 0;

	put(0, TIME + 1);
	look(TIME + 50 * MS, 0, TIME + 1, true);
	/* it is there although the log has not ended: this process may be killed now */
	for (; !complete && tries < 10000; tries++) {
		assert_int_equal(ip_batch_reader_open(path, &r), 0);
		while (ip_batch_reader_next(r, &h, &missing) > 0) {
			struct ip_batch_section s = {0};

			complete = h->complete;
			while (ip_batch_reader_section(r, &s))
				if (s.kind == IP_STREAM_LOG_BEHIND)
					words = ((struct ip_stream_log_behind *)s.content)->words;
		}
		ip_batch_reader_close(r);
		usleep(1000);
	}
	assert_int_equal(complete, TIME + 30 * MS);
	assert_int_equal(words, 3);
}

static void test_ends(void **state)
{
	struct ip_stream_log_counts counts;

	put(0, TIME + 1);
	o->ended(o->data, &claims[0], TIME + 5);
	/* of a thread that has never recorded there is nothing to tell */
	o->ended(o->data, &claims[1], TIME + 5);
	look(TIME + 10, 0, 0, false);
	read_log(0, &counts);
	assert_int_equal(found.n, 1);
	assert_int_equal(found.ended, 1);
}

/* A thread that is told before its first record is told again, with its stack pointer. */
static void test_a_thread_without_a_record(void **state)
{
	struct ip_stream_log_counts counts;

	look(TIME, 0, TIME, false);
	put(0, TIME + 1);
	look(TIME + 10, 0, 0, false);
	put(0, TIME + 11);
	look(TIME + 20, 0, 0, false);
	read_log(0, &counts);
	assert_int_equal(found.n, 2);
	assert_int_equal(found.threads, 2);
	assert_int_equal(found.thread.thread, 0);
	assert_int_equal(found.thread.tid, 10);
	assert_int_equal(found.thread.sp, 0x7000);
}

/* More than is held back to be put in order: that is not the fault of whoever takes the log. */
static void test_no_room_to_sort(void **state)
{
	const uint64_t most = IP_RECORD_ORDER_MOST, more = 5;
	struct ip_stream_log_counts counts;

	for (uint64_t i = 0; i < most + more; i++)
		put(0, TIME + i);
	look(TIME + most + more, 0, 0, false);
	read_log(TIME + 2 * most, &counts);
	assert_int_equal(counts.unsorted, more);
	assert_int_equal(found.unsorted, more);
	assert_int_equal(counts.records, found.n);
	assert_int_equal(counts.records + counts.dropped, most + more);
	assert_true(found.dropped >= more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_order, begin, end),
		cmocka_unit_test_setup_teardown(test_held_back, begin, end),
		cmocka_unit_test_setup_teardown(test_bounds, begin, end),
		cmocka_unit_test_setup_teardown(test_end_mark, begin, end),
		cmocka_unit_test_setup_teardown(test_ends, begin, end),
		cmocka_unit_test_setup_teardown(test_no_room_to_sort, begin, end),
		cmocka_unit_test_setup_teardown(test_a_thread_without_a_record, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
