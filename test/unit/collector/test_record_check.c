/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sifting where time goes back: what cannot be brought in order is no record, and is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "collector/record_check.h"
#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"

#define SINCE (1ull << 40)

static size_t put_extended(uint64_t *words, size_t n, uint64_t time, uint32_t number)
{
	words[n] = time << 32 | (uint64_t)(IP_ID_EXT_BASE + IP_PROBE_ENTRY) << 3 | IP_ID_EXTENDED;
	words[n + 1] = (uint64_t)number << 32 | time >> 32;
	words[n + 2] = 1ull << 32; /* its stack pointer: not nothing */
	return n + IP_EXT_WORDS;
}

static size_t put_compact(uint64_t *words, size_t n, uint64_t time, uint32_t number)
{
	words[n] = (uint64_t)number << 32 | (time & IP_TIME_MASK) << 3 | IP_PROBE_ENTRY;
	return n + 1;
}

static void test_the_clock_steps_back_between_two_buffers(void **state)
{
	uint64_t words[32] = {0}, records[32];
	struct ip_checked_records found;
	size_t n = 1;

	(void)state;
	n = put_extended(words, n, SINCE - 1000, 5);
	n = put_compact(words, n, SINCE - 900, 6);
	ip_record_check(words, n, SINCE, records, &found);
	assert_int_equal(found.events, 0);
	assert_int_equal(found.words, 0);
	assert_int_equal(found.end, 0);
	assert_int_equal(found.invalid, 2);
	/* what comes when the clock is where it was before is good again */
	n = put_extended(words, n, SINCE, 7);
	n = put_compact(words, n, SINCE + 100, 8);
	ip_record_check(words, n, SINCE, records, &found);
	assert_int_equal(found.events, 2);
	assert_int_equal(found.invalid, 2);
	assert_int_equal(found.begin, SINCE);
	assert_int_equal(found.end, SINCE + 100);
}

static void test_the_clock_steps_back_in_a_buffer(void **state)
{
	uint64_t words[32] = {0}, records[32];
	struct ip_checked_records found;
	size_t n = 1;

	(void)state;
	n = put_extended(words, n, SINCE + 1000, 5);
	n = put_extended(words, n, SINCE + 10, 6);
	n = put_compact(words, n, SINCE + 1001, 7);
	ip_record_check(words, n, SINCE, records, &found);
	assert_int_equal(found.events, 2);
	assert_int_equal(found.invalid, 1);
	assert_int_equal(found.begin, SINCE + 1000);
	assert_int_equal(found.end, SINCE + 1001);
}

/* A sub-buffer that is read in parts, up to any word each, has the same records as one that is read
 * at once. */
static void test_in_parts(void **state)
{
	uint64_t words[64] = {0}, records[64], part[64], all[64];
	size_t n = 1;

	(void)state;
	n = put_extended(words, n, SINCE + 10, 5);
	n = put_compact(words, n, SINCE + 20, 6);
	n = put_extended(words, n, SINCE + 30, 7);
	n = put_compact(words, n, SINCE + 40, 8);
	n = put_compact(words, n, SINCE + 50, 9);
	for (size_t cut = 1; cut <= n; cut++) {
		struct ip_record_check_place place = {.first = 1, .time = SINCE};
		struct ip_checked_records found, more, whole;
		uint64_t unfilled[64] = {0};

		ip_record_check(words, n, SINCE, all, &whole);
		/* what lies behind the cut is reserved, and not filled yet */
		memcpy(unfilled, words, cut * sizeof(*words));
		place.first = ip_record_check_part(unfilled, n, &place, false, records, &found);
		assert_true(place.first <= cut && found.holes == 0 && found.invalid == 0);
		place.begun = found.events > 0;
		place.time = found.events ? found.end : SINCE;
		assert_int_equal(ip_record_check_part(words, n, &place, false, part, &more), n);
		assert_int_equal(found.events + more.events, whole.events);
		memcpy(records + found.words, part, more.words * sizeof(*part));
		assert_int_equal(found.words + more.words, whole.words);
		assert_memory_equal(records, all, whole.words * sizeof(*all));
	}
}

/* A hook that is in flight has filled a part of its words: its record is waited for. */
static void test_a_record_that_is_being_written(void **state)
{
	const struct ip_record_check_place place = {.first = 1, .time = SINCE};
	uint64_t words[64] = {0}, records[64];
	struct ip_checked_records found;
	size_t n = put_extended(words, 1, SINCE + 10, 5),
	       end = put_extended(words, n, SINCE + 20, 6);

	(void)state;
	for (size_t i = n; i < end; i++) {
		const uint64_t word = words[i];

		words[i] = 0;
		assert_int_equal(ip_record_check_part(words, end, &place, false, records, &found),
				 n);
		assert_int_equal(found.events, 1);
		/* once nobody fills it any more it is lost */
		assert_int_equal(ip_record_check_part(words, end, &place, true, records, &found),
				 end);
		assert_int_equal(found.events, 1);
		assert_true(found.holes > 0 || found.invalid > 0);
		words[i] = word;
	}
	assert_int_equal(ip_record_check_part(words, end, &place, false, records, &found), end);
	assert_int_equal(found.events, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_clock_steps_back_between_two_buffers),
		cmocka_unit_test(test_the_clock_steps_back_in_a_buffer),
		cmocka_unit_test(test_in_parts),
		cmocka_unit_test(test_a_record_that_is_being_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
