/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sifting where time goes back: what cannot be brought in order is no record, and is counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_clock_steps_back_between_two_buffers),
		cmocka_unit_test(test_the_clock_steps_back_in_a_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
