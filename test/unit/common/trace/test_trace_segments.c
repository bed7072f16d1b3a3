/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of pieces: what is written is read, whatever was there before, and nothing is believed
 * that cannot be. Names of streams.
 */
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/trace/trace_segments.h"
#include "test/unit/test.h"

static char table[IP_TRACE_SEGMENTS_SIZE];
static struct ip_trace_segments pieces;

static void put(const struct ip_trace_segment *p)
{
	ip_trace_segment_format(p, table + ip_trace_segment_place(p->number));
}

/* A recording of four pieces at a time that has come to the nth. */
static void record(uint32_t n)
{
	memset(table, 0, sizeof(table));
	for (uint32_t i = 0; i <= n; i++)
		put(&(struct ip_trace_segment){i, i < 4 ? 0 : i - 3, 100 + i, 10 * i, 1000 * i,
					       50 * i, i / 2});
}

static int parse(size_t size)
{
	return ip_trace_segments_parse("table", table, size, &pieces);
}

static void test_what_was_written(void **state)
{
	static const uint32_t numbers[] = {0, 1, 3, 4, 126, 127, 128, 129, 1000, 5000};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		uint32_t n = numbers[i], first = n < 4 ? 0 : n - 3;

		record(n);
		assert_int_equal(parse(n < IP_TRACE_SEGMENTS_ROOM ? (n + 1) * IP_TRACE_SEGMENT_LINE
								  : sizeof(table)),
				 0);
		assert_int_equal(pieces.newest, n);
		assert_int_equal(ip_trace_segments_first(&pieces)->number, first);
		assert_int_equal(ip_trace_segments_first(&pieces)->events, 50 * first);
		assert_int_equal(ip_trace_segments_newest(&pieces)->bytes, 1000 * n);
		assert_int_equal(ip_trace_segments_newest(&pieces)->tsc, 100 + n);
	}
}

static void test_the_largest_numbers(void **state)
{
	const struct ip_trace_segment p = {UINT32_MAX - 1, UINT32_MAX - 1, UINT64_MAX, UINT64_MAX,
					   UINT64_MAX,	   UINT64_MAX,	   UINT64_MAX};

	memset(table, 0, sizeof(table));
	put(&p);
	assert_int_equal(parse(sizeof(table)), 0);
	assert_memory_equal(ip_trace_segments_first(&pieces), &p, sizeof(p));
}

/* A line of which a part is there only counts as little as one that is not: the one before
 * holds. */
static void test_half_a_line(void **state)
{
	record(9);
	for (size_t n = 0; n < IP_TRACE_SEGMENT_LINE; n++) {
		assert_int_equal(parse(9 * IP_TRACE_SEGMENT_LINE + n), 0);
		assert_int_equal(pieces.newest, 8);
	}
	assert_int_equal(parse(0), -1);
	assert_int_equal(parse(IP_TRACE_SEGMENT_LINE - 1), -1);
}

static void test_what_cannot_be(void **state)
{
	const struct ip_trace_segment good = {9, 6, 109, 90, 9000, 450, 4};
	struct ip_trace_segment bad[6];

	for (size_t i = 0; i < 6; i++)
		bad[i] = good;
	bad[0].first = 10;   /* what comes later */
	bad[1].number = 72;  /* more than there may be */
	bad[2].packets = 79; /* fewer than before */
	bad[3].events = 0;
	bad[4].tsc = 107;
	bad[5].first = 4;
	for (size_t i = 0; i < 6; i++) {
		record(9);
		put(&bad[i]);
		assert_int_equal(parse(sizeof(table)), -1);
		assert_non_null(strstr(ip_error_message(), "table: "));
	}
	/* one in the middle is missing, or another's */
	record(9);
	memset(table + ip_trace_segment_place(7), 0, IP_TRACE_SEGMENT_LINE);
	assert_int_equal(parse(sizeof(table)), -1);
	record(9);
	memcpy(table + ip_trace_segment_place(7), table + ip_trace_segment_place(8),
	       IP_TRACE_SEGMENT_LINE);
	assert_int_equal(parse(sizeof(table)), -1);
}

/* Whatever changes, the answer holds together. */
static void test_any_damage(void **state)
{
	srand(3);
	for (int i = 0; i < 20000; i++) {
		record(9);
		for (int k = rand() % 4; k >= 0; k--)
			table[rand() % (10 * IP_TRACE_SEGMENT_LINE)] =
				rand() % 3 ? '0' + rand() % 10 : rand();
		if (parse(sizeof(table)) < 0)
			continue;
		assert_true(ip_trace_segments_first(&pieces)->number <= pieces.newest);
		assert_true(pieces.newest - ip_trace_segments_first(&pieces)->number <
			    IP_TRACE_SEGMENTS_MAX);
		assert_true(ip_trace_segments_first(&pieces)->events <=
			    ip_trace_segments_newest(&pieces)->events);
	}
}

static void test_names(void **state)
{
	static const struct {
		const char *text;
		struct ip_stream_name name;
	} good[] = {{"stream-0", {0, 0, false, false}},
		    {"stream-12.zst", {12, 0, false, true}},
		    {"stream-8191-4294967295", {8191, UINT32_MAX, true, false}},
		    {"stream-4294967295-7.zst", {UINT32_MAX, 7, true, true}}};
	static const char *const bad[] = {"",
					  "stream",
					  "stream-",
					  "stream-x",
					  "stream-1-",
					  "stream-1-x",
					  "stream-1-2-3",
					  "stream-1.",
					  "stream-1.zs",
					  "stream--1",
					  "stream-1 ",
					  "stream- 1",
					  "stream-+1",
					  "metadata",
					  "stream1",
					  "iprobe",
					  "stream-1.zst.zst",
					  "stream-4294967296",
					  "stream-1-4294967296"};
	struct ip_stream_name name;
	char text[IP_STREAM_NAME_MAX];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		assert_true(ip_stream_name_parse(good[i].text, &name));
		assert_int_equal(name.slot, good[i].name.slot);
		assert_int_equal(name.piece, good[i].name.piece);
		assert_int_equal(name.in_pieces, good[i].name.in_pieces);
		assert_int_equal(name.compressed, good[i].name.compressed);
		ip_stream_name_format(&name, text);
		assert_string_equal(text, good[i].text);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		assert_false(ip_stream_name_parse(bad[i], &name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_was_written), cmocka_unit_test(test_the_largest_numbers),
		cmocka_unit_test(test_half_a_line),	 cmocka_unit_test(test_what_cannot_be),
		cmocka_unit_test(test_any_damage),	 cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
