/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and histograms: totals that are exact whatever threads do, and places that are nobody
 * else's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collector/meters.h"
#include "common/condition.h"
#include "test/unit/fake_recording.h"
#include "test/unit/test.h"

#define A 5u /* numbers of functions */
#define B 7u

static struct fake_recording r;
static struct ip_counters *c;

static int begin(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20,
					    .modes = IP_MODE_PAYLOADS,
					    .room = 512,
					    .frames = true,
					    .numbers = 64};

	(void)state;
	fake_recording_begin(&r, &needs, 1 << 30);
	assert_int_equal(ip_counters_create(r.area, NULL, &c), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_counters_destroy(c);
	fake_recording_end(&r);
	return 0;
}

/* A thread has the slot and the block. */
static void claim(uint32_t slot, uint32_t block)
{
	fake_thread_claim(&r, slot, 100 + slot);
	r.area->slots[slot].block = block;
	ip_area_meters(r.area, block)->state = IP_METERS_OWNED;
}

static void set(uint32_t number, uint32_t duty)
{
	if (ip_counters_set(c, number, duty, false) < 0)
		fail_msg("%s", ip_error_message());
}

/* What hooks find in the table. */
static uint32_t offset_of(uint32_t number)
{
	return IP_DUTY_OFFSET(r.area->duties[number]);
}

/* Where a block's thread counts the function. */
static void *meter(uint32_t block, uint32_t number)
{
	uint32_t inside, part = ip_blocks_part(r.area, block, offset_of(number), &inside);

	return (char *)ip_area_meters(r.area, part) + inside;
}

static uint64_t *count(uint32_t block, uint32_t number)
{
	return meter(block, number);
}

static struct ip_hist *hist(uint32_t block, uint32_t number)
{
	return meter(block, number);
}

static struct ip_condition_durations durations(uint32_t number)
{
	struct ip_condition_durations d;

	ip_counters_collect(c);
	ip_counters_durations(c, number, &d);
	return d;
}

static void test_counts(void **state)
{
	(void)state;
	set(A, IP_DUTY_COUNT);
	set(B, IP_DUTY_COUNT);
	assert_int_equal(r.area->duties[A] & IP_DUTY_MASK, IP_DUTY_COUNT);
	assert_int_not_equal(offset_of(A), offset_of(B));
	claim(1, 1);
	claim(2, 2);
	*count(0, A) += 2; /* by threads that have no block */
	*count(1, A) += 3;
	*count(2, A) += 4;
	*count(2, B) += 10;
	*count(3, A) += 1000; /* a block that is nobody's */
	assert_int_equal(durations(A).calls, 9);
	assert_int_equal(durations(A).calls, 9);
	assert_int_equal(durations(B).calls, 10);
	*count(1, A) += 1;
	assert_int_equal(ip_counters_calls(c), 19);
	assert_int_equal(durations(A).calls, 10);
	assert_int_equal(durations(A + 1).calls, 0);
	assert_int_equal(durations(UINT32_MAX).calls, 0);
	/* who has no meters at all */
	ip_counters_collect(NULL);
	assert_int_equal(ip_counters_calls(NULL), 0);
	ip_counters_release(NULL, &r.area->slots[1]);
}

/* What a thread leaves is added once, and who gets its block next begins at zero. */
static void test_threads_that_end(void **state)
{
	struct ip_meters *block;

	(void)state;
	set(A, IP_DUTY_COUNT);
	claim(1, 1);
	*count(1, A) = 3;
	assert_int_equal(durations(A).calls, 3);
	*count(1, A) = 8;
	block = ip_area_meters(r.area, 1);
	block->outmost = 1;
	r.area->header->meters_hint = 9;
	ip_counters_release(c, &r.area->slots[1]);
	assert_int_equal(block->state, IP_METERS_FREE);
	assert_int_equal(block->outmost, 0);
	assert_int_equal(*count(1, A), 0);
	assert_int_equal(r.area->header->meters_hint, 1);
	assert_int_equal(durations(A).calls, 8);
	/* again: it is not its own any more */
	*count(1, A) = 100;
	ip_counters_release(c, &r.area->slots[1]);
	assert_int_equal(durations(A).calls, 8);
	*count(1, A) = 0;
	claim(2, 1);
	*count(1, A) = 1;
	assert_int_equal(durations(A).calls, 9);
	/* no block, the shared one, and numbers that the target has made up */
	r.area->slots[2].block = 0;
	ip_counters_release(c, &r.area->slots[2]);
	r.area->slots[2].block = UINT32_MAX;
	ip_counters_release(c, &r.area->slots[2]);
	assert_int_equal(ip_area_meters(r.area, 0)->state, IP_METERS_OWNED);
	assert_int_equal(ip_area_meters(r.area, 1)->state, IP_METERS_OWNED);
}

/* Buckets have 32 bits, and a busy program fills them. */
static void test_buckets_that_wrap(void **state)
{
	struct ip_hist *h;

	(void)state;
	set(A, IP_DUTY_HIST);
	claim(1, 1);
	h = hist(1, A);
	h->buckets[3] = 0xfffffff0u;
	h->buckets[4] = 1;
	h->sum = UINT64_MAX - 4;
	assert_int_equal(durations(A).calls, 0xfffffff1ull);
	h->buckets[3] += 0x20;
	h->buckets[23] += 7;
	h->sum += 15;
	assert_int_equal(durations(A).buckets[3], 0x100000010ull);
	assert_int_equal(durations(A).buckets[4], 1);
	assert_int_equal(durations(A).buckets[23], 7);
	assert_int_equal(durations(A).calls, 0x100000010ull + 8);
	assert_int_equal(durations(A).sum, 10);
	/* with its thread's end nothing is added that was added before */
	ip_counters_release(c, &r.area->slots[1]);
	assert_int_equal(durations(A).calls, 0x100000010ull + 8);
}

static char *saved(void)
{
	static char text[1 << 16];
	int fd;
	ssize_t n;

	assert_int_equal(ip_counters_save(c, r.trace), 0);
	fd = openat(ip_trace_dirfd(r.trace), IP_TRACE_COUNTS, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static void assert_line(const char *line)
{
	const char *text = saved();

	if (!strstr(text, line))
		fail_msg("\"%s\" is not in:\n%s", line, text);
}

/* Each thread that has not ended has a line; of what slots say nothing but numbers is taken. */
static void test_saved_threads(void **state)
{
	char line[128];

	(void)state;
	set(A, IP_DUTY_COUNT);
	set(B, IP_DUTY_HIST);
	claim(1, 1);
	claim(2, 2);
	r.area->slots[1].pid = 77;
	*count(1, A) = 12;
	hist(1, B)->self = 4000;
	hist(1, B)->buckets[2] = 0xfffffff0u;
	hist(1, B)->unmeasured = 1;
	ip_counters_collect(c);
	/* the bucket wraps */
	hist(1, B)->buckets[2] += 0x20;
	*count(0, A) = 3;
	ip_counters_collect(c);
	snprintf(line, sizeof(line), "\nthread\t77\t101\t%lu\t%llu\t4000\n",
		 r.area->slots[1].claimed, 12 + 1 + 0x100000010ull);
	assert_line(line);
	assert_line("\nthread\t0\t0\t0\t3\t0\n");
	/* the second one has called nothing */
	assert_null(strstr(saved(), "\t102\t"));
	r.area->slots[2].block = 0;
	r.area->slots[3].state = IP_SLOT_CLAIMED;
	r.area->slots[3].tid = 103;
	r.area->slots[3].block = UINT32_MAX;
	r.area->header->slots_used = UINT32_MAX;
	ip_counters_collect(c);
	assert_null(strstr(saved(), "\t102\t"));
	assert_null(strstr(saved(), "\t103\t"));
	r.area->header->slots_used = 4;
	ip_counters_release(c, &r.area->slots[1]);
	assert_null(strstr(saved(), "\t101\t"));
	assert_line("count\t5\t15\n");
	/* the next thread with that block begins from nothing */
	claim(1, 1);
	*count(1, A) = 2;
	ip_counters_collect(c);
	snprintf(line, sizeof(line), "\t101\t%lu\t2\t0\n", r.area->slots[1].claimed);
	assert_line(line);
}

static void test_what_is_saved(void **state)
{
	(void)state;
	/* nothing has a meter: no file */
	assert_string_equal(saved(), "");
	set(A, IP_DUTY_COUNT);
	set(B, IP_DUTY_HIST);
	set(B + 2, IP_DUTY_TIMED);
	claim(1, 1);
	*count(1, A) = 12;
	hist(1, B)->sum = 5000;
	hist(1, B)->self = 4000;
	hist(1, B)->buckets[0] = 2;
	hist(1, B)->buckets[5] = 1;
	hist(1, B)->unmeasured = 4;
	hist(1, B)->min = ~ip_hist_pack(100);
	hist(1, B)->max = ip_hist_pack(4800);
	hist(1, B + 2)->buckets[0] = 1;
	claim(2, 2);
	hist(2, B)->min = ~ip_hist_pack(120);
	hist(2, B)->max = ip_hist_pack(3ull << 33 | 1);
	claim(3, 3);
	hist(3, B)->min = ~ip_hist_pack(4000);
	hist(3, B)->max = ip_hist_pack(4000);
	ip_counters_collect(c);
	assert_line("iprobe-counts\t1\n");
	assert_line("buckets\t24\t7\n");
	assert_line("\ncount\t5\t12\n");
	/* the longest is rounded up */
	assert_line("\nhist\t7\t3\t4\t5000\t100\t25769804031\t2,0,0,0,0,1,0");
	assert_line("\nself\t7\t4000\n");
	assert_line("\nend\n");
	/* what is logged as well is in the trace itself */
	assert_null(strstr(saved(), "hist\t9"));
	assert_null(strstr(saved(), "tailed"));
	/* of what was never called there is no shortest */
	set(B + 4, IP_DUTY_HIST);
	assert_line("\nhist\t11\t0\t0\t0\t0\t0\t0,0");
}

static uint64_t longest(uint32_t number)
{
	struct ip_condition_durations d;

	ip_counters_look(c);
	ip_counters_durations(c, number, &d);
	return d.max;
}

/* The longest call between two looks, whoever collects between them; the total keeps the longest of
 * all. Of other functions nothing is taken out of the blocks. */
static void test_longest_calls(void **state)
{
	(void)state;
	set(A, IP_DUTY_TIMED);
	set(B, IP_DUTY_HIST);
	ip_counters_keep_max(c, B);
	ip_counters_keep_max(c, B + 1); /* no meter: nothing happens */
	ip_counters_keep_max(c, UINT32_MAX);
	claim(1, 1);
	claim(2, 2);
	hist(1, A)->max = hist(1, B)->max = ip_hist_pack(9000);
	assert_int_equal(longest(B), 9000);
	assert_int_equal(hist(1, B)->max, 0);
	assert_int_equal(hist(1, A)->max, 9000);
	assert_int_equal(longest(B), 0);
	/* shorter than before, in two threads, one of which ends */
	hist(1, B)->max = ip_hist_pack(300);
	hist(2, B)->max = ip_hist_pack(500);
	ip_counters_collect(c);
	hist(1, B)->max = ip_hist_pack(200);
	hist(2, B)->max = ip_hist_pack(400);
	ip_counters_release(c, &r.area->slots[2]);
	assert_int_equal(longest(B), 500);
	assert_int_equal(longest(B), 0);
	assert_non_null(strstr(saved(), "\nhist\t7\t0\t0\t0\t0\t9000\t"));
}

/* A function with tail exits has one word more. */
static void test_tail_exits(void **state)
{
	(void)state;
	assert_int_equal(ip_counters_set(c, A, IP_DUTY_HIST, true), 0);
	set(B, IP_DUTY_HIST);
	claim(1, 1);
	((struct ip_hist_tails *)meter(1, A))->tailed = 6;
	assert_true(offset_of(B) >= offset_of(A) + sizeof(struct ip_hist_tails) ||
		    offset_of(B) + sizeof(struct ip_hist) <= offset_of(A));
	ip_counters_release(c, &r.area->slots[1]);
	assert_line("\ntailed\t5\t6\n");
}

/* Calls that are open when their thread ends are counted, and their durations are not known. */
static void test_open_calls(void **state)
{
	struct ip_meters *block;

	(void)state;
	set(A, IP_DUTY_HIST);
	set(B, IP_DUTY_TIMED);
	claim(1, 1);
	block = ip_area_meters(r.area, 1);
	block->frames[0] = (struct ip_meters_frame){.sp = 1, .duty = r.area->duties[A]};
	block->frames[1] = (struct ip_meters_frame){.sp = 1, .duty = r.area->duties[B]};
	block->frames[2] = (struct ip_meters_frame){.sp = 1, .duty = r.area->duties[A]};
	/* not filled yet; of a function that has no meter; and one that has ended */
	block->frames[3] = (struct ip_meters_frame){.sp = 0, .duty = r.area->duties[A]};
	block->frames[4] = (struct ip_meters_frame){.sp = 1, .duty = IP_DUTY(IP_DUTY_HIST, 8)};
	block->frames[5] = (struct ip_meters_frame){.sp = 1, .duty = r.area->duties[A]};
	block->top = 5 * sizeof(struct ip_meters_frame);
	ip_counters_release(c, &r.area->slots[1]);
	assert_line("\nhist\t5\t0\t2\t");
	assert_int_equal(ip_counters_calls(c), 3);
	/* a depth that the target has made up is no further than the block */
	claim(1, 1);
	block->top = UINT64_MAX;
	block->frames[0] = (struct ip_meters_frame){.sp = 1, .duty = r.area->duties[A]};
	ip_counters_release(c, &r.area->slots[1]);
	assert_line("\nhist\t5\t0\t3\t");
}

/* A function that is taken away and comes back goes on where it was; with another duty it begins
 * anew. */
static void test_functions_that_come_back(void **state)
{
	uint32_t place;

	(void)state;
	set(A, IP_DUTY_COUNT);
	place = offset_of(A);
	claim(1, 1);
	*count(1, A) = 3;
	set(A, IP_DUTY_SILENT);
	assert_int_equal(r.area->duties[A], IP_DUTY_SILENT);
	assert_int_equal(durations(A).calls, 3);
	set(A, IP_DUTY_COUNT);
	assert_int_equal(offset_of(A), place);
	*count(1, A) += 1;
	assert_int_equal(durations(A).calls, 4);
	set(A, IP_DUTY_HIST);
	assert_int_not_equal(offset_of(A), place);
	assert_int_equal(durations(A).calls, 0);
	assert_int_equal(ip_counters_calls(c), 4);
}

/* Functions are added until no memory is left: blocks are halved, threads that have one keep it,
 * and what was counted stays exact. */
static void test_more_functions_than_room(void **state)
{
	const uint32_t all = r.area->blocks.all;
	uint64_t used = 0;
	uint32_t n = 0;

	(void)state;
	set(1, IP_DUTY_COUNT);
	claim(1, 1);
	*count(1, 1) = 7;
	assert_int_equal(durations(1).calls, 7);
	while (ip_counters_set(c, 2 + n, n % 3 ? IP_DUTY_COUNT : IP_DUTY_HIST, false) == 0)
		used += n++ % 3 ? sizeof(uint64_t) : sizeof(struct ip_hist);
	assert_error("no memory is left to count calls or measure them of more than");
	/* two blocks are left, the shared one and that of the thread */
	assert_int_equal(r.area->blocks.n, 2);
	assert_true(all > 2);
	/* half of all memory is the thread's, but for the heads of what were other blocks, and for
	 * lines that no histogram fits in */
	assert_true(used > (all / 2 - 1) * (r.area->blocks.size - 384));
	assert_int_equal(r.area->duties[2 + n], IP_DUTY_LOG);
	/* once more, and one that has its place */
	assert_int_equal(ip_counters_set(c, 2 + n, IP_DUTY_HIST, false), -1);
	set(1, IP_DUTY_COUNT);
	/* each has a place of its own in each block, wherever its parts lie */
	for (uint32_t number = 2; number < 2 + n; number++)
		if ((number - 2) % 3)
			*count(1, number) += number;
		else
			hist(1, number)->buckets[0] += number;
	*count(1, 1) += 1;
	ip_counters_collect(c);
	for (uint32_t number = 2; number < 2 + n; number++)
		assert_int_equal(durations(number).calls, number);
	assert_int_equal(durations(1).calls, 8);
	ip_counters_release(c, &r.area->slots[1]);
	for (uint32_t number = 1; number < 2 + n; number++)
		assert_int_equal(*count(1, number), 0);
	assert_int_equal(durations(1 + n).calls, 1 + n);
	/* the next thread counts from zero in all parts */
	claim(2, 1);
	*count(1, 3) = 1;
	assert_int_equal(durations(3).calls, 4);
}

/* A thread in the upper half keeps its block, and with it the memory. */
static void test_no_room_beside_threads(void **state)
{
	const uint32_t all = r.area->blocks.all;
	uint32_t n = 0;

	(void)state;
	claim(1, all - 1);
	while (ip_counters_set(c, 1 + n, IP_DUTY_HIST, false) == 0)
		n++;
	assert_int_equal(r.area->blocks.n, all);
	assert_int_equal(n, 512 / sizeof(struct ip_hist));
	hist(all - 1, n)->buckets[2] = 9;
	assert_int_equal(durations(n).calls, 9);
	/* it ends: there is room */
	ip_counters_release(c, &r.area->slots[1]);
	set(1 + n, IP_DUTY_HIST);
	assert_int_equal(r.area->blocks.n, all / 2);
	assert_int_equal(durations(n).calls, 9);
}

/* A library that comes later has numbers beyond the memory of the table. */
static void test_numbers_that_come_later(void **state)
{
	(void)state;
	assert_int_equal(r.area->numbers, 64);
	set(100000, IP_DUTY_COUNT);
	assert_int_equal(r.area->numbers, 100001);
	assert_int_equal(r.area->duties[100000] & IP_DUTY_MASK, IP_DUTY_COUNT);
	set(IP_AREA_DUTIES - 1, IP_DUTY_SILENT);
	assert_int_equal(ip_counters_set(c, IP_AREA_DUTIES, IP_DUTY_COUNT, false), -1);
	assert_error("cannot allocate memory for the payloads of more functions");
}

static unsigned kept;

static bool release_some(void *data, uint32_t block)
{
	assert_int_equal(block, 1);
	return *(const bool *)data;
}

static void keep(void *data, uint32_t block)
{
	(void)data;
	kept++;
	/* the block has been cleared by now */
	assert_int_equal(*count(block, A), 0);
	*count(block, A) = 55;
}

/* Something of an ended thread has to stay in its block: nobody gets it until that is gone. */
static void test_blocks_that_are_left(void **state)
{
	bool holds = true;
	const struct ip_meter_kind kind = {.data = &holds, .release = release_some, .keep = keep};

	(void)state;
	kept = 0;
	ip_counters_set_kind(NULL, &kind);
	ip_counters_set_kind(c, &kind);
	set(A, IP_DUTY_COUNT);
	claim(1, 1);
	*count(1, A) = 3;
	ip_counters_release(c, &r.area->slots[1]);
	assert_int_equal(ip_area_meters(r.area, 1)->state, IP_METERS_LEFT);
	assert_int_equal(*count(1, A), 55);
	assert_int_equal(durations(A).calls, 3);
	holds = false;
	*count(1, A) = 0;
	claim(1, 1);
	ip_counters_release(c, &r.area->slots[1]);
	assert_int_equal(ip_area_meters(r.area, 1)->state, IP_METERS_FREE);
	assert_int_equal(kept, 1);
}

/* The room that a plan needs is enough for it, and some more. */
static void test_needs(void **state)
{
	struct ip_plan_function functions[] = {{.duty = IP_DUTY_COUNT},
					       {.duty = IP_DUTY_HIST},
					       {.duty = IP_DUTY_TIMED, .tail_exits = 1},
					       {.duty = IP_DUTY_LOG, .tail_exits = 1}};
	const struct ip_plan plan = {.functions = functions,
				     .nfunctions = N_ELEMENTS(functions),
				     .ncounts = 1,
				     .nhists = 2},
			     nothing = {0};
	const struct ip_modules none = {0};
	struct ip_area_needs some = {0}, needs = {0};

	(void)state;
	ip_counters_needs(&nothing, NULL, NULL, &none, r.area, false, &some);
	ip_counters_needs(&plan, NULL, NULL, &none, r.area, false, &needs);
	assert_true(some.room > 0);
	assert_int_equal(needs.room - some.room,
			 sizeof(uint64_t) + sizeof(struct ip_hist) + sizeof(struct ip_hist_tails));
	assert_true(needs.modes & IP_MODE_PAYLOADS);
	/* numbers that were given in earlier sessions are among them; and there is an end */
	r.area->header->nmodules = 1;
	r.area->modules[0].nfunctions = 1000;
	ip_counters_needs(&plan, NULL, NULL, &none, r.area, false, &needs);
	assert_int_equal(needs.numbers - some.numbers, 2000);
	r.area->modules[0].nfunctions = UINT32_MAX;
	r.area->header->nmodules = UINT32_MAX;
	ip_counters_needs(&plan, NULL, NULL, &none, r.area, false, &needs);
	assert_int_equal(needs.numbers, IP_AREA_DUTIES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counts, begin, end),
		cmocka_unit_test_setup_teardown(test_threads_that_end, begin, end),
		cmocka_unit_test_setup_teardown(test_buckets_that_wrap, begin, end),
		cmocka_unit_test_setup_teardown(test_saved_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_what_is_saved, begin, end),
		cmocka_unit_test_setup_teardown(test_longest_calls, begin, end),
		cmocka_unit_test_setup_teardown(test_tail_exits, begin, end),
		cmocka_unit_test_setup_teardown(test_open_calls, begin, end),
		cmocka_unit_test_setup_teardown(test_functions_that_come_back, begin, end),
		cmocka_unit_test_setup_teardown(test_more_functions_than_room, begin, end),
		cmocka_unit_test_setup_teardown(test_no_room_beside_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_numbers_that_come_later, begin, end),
		cmocka_unit_test_setup_teardown(test_blocks_that_are_left, begin, end),
		cmocka_unit_test_setup_teardown(test_needs, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
