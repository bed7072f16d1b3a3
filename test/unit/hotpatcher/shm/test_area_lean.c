/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The area of a session that only watches.
 */
#include <sys/stat.h>

#include "hotpatcher/shm/area.h"
#include "hotpatcher/shm/area_lean.h"
#include "test/unit/test.h"

#define MEMORY (8ull << 20)

static struct ip_area *area;

static const struct ip_area_needs needs = {
	.memory = MEMORY, .modes = IP_MODE_PAYLOADS, .room = 384, .frames = true, .numbers = 1024};

static uint64_t allocated(void)
{
	struct stat st;

	assert_int_equal(fstat(area->fd, &st), 0);
	return st.st_blocks * 512ull;
}

static int begin(void **state)
{
	(void)state;
	return ip_area_create(MEMORY, &area);
}

static int end(void **state)
{
	(void)state;
	ip_area_close(area);
	return 0;
}

static void test_how_little(void **state)
{
	(void)state;
	ip_area_lean_prepare(area, true, 1);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_int_equal(area->blocks.all, 32);
	assert_true(allocated() > 1 << 20); /* the slots */
	assert_true(ip_area_lean_give_back(area));
	assert_true(allocated() < 512 << 10);
	for (unsigned i = 0; i < IP_AREA_SLOTS; i++)
		assert_int_equal(area->slots[i].state, IP_SLOT_FREE);
}

static void test_many_threads(void **state)
{
	(void)state;
	ip_area_lean_prepare(area, true, 100);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_int_equal(area->blocks.all, 512);
	/* no more than there is memory for */
	ip_area_lean_prepare(area, true, 8000);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_true(area->blocks.all >= 256 && area->blocks.all * area->blocks.size <= MEMORY / 2);
	/* the next session is not lean */
	ip_area_lean_prepare(area, false, 1);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_true(area->blocks.all >= 256 && area->nsubbufs > 100);
}

/* A hook that writes an event all the same does not write it into blocks. */
static void test_blocks_lie_behind_sub_buffers(void **state)
{
	static const uint64_t memories[] = {MEMORY, 128 << 10, 64 << 10};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(memories); i++)
		for (int lean = 0; lean < 2; lean++) {
			struct ip_area_needs n = {.memory = memories[i],
						  .modes = IP_MODE_PAYLOADS,
						  .room = 384,
						  .numbers = 1024};

			ip_area_lean_prepare(area, lean, 1);
			assert_int_equal(ip_area_begin(area, 1, &n), 0);
			assert_true(area->nsubbufs >= IP_SUBBUFS_LEAST);
			assert_true(IP_AREA_DATA_OFFSET +
					    (uint64_t)area->header->nsubbufs * IP_SUBBUF_SIZE <=
				    area->header->meters);
		}
}

/* Late hooks of an earlier session may still read what was written into their slots. */
static void test_what_was_used_stays(void **state)
{
	uint64_t before;

	(void)state;
	ip_area_lean_prepare(area, true, 1);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	before = allocated();
	assert_false(ip_area_lean_give_back(area));
	assert_int_equal(allocated(), before);
	assert_int_equal(area->slots[IP_AREA_SLOTS - 1].cur >> IP_POSITION_BITS, IP_NO_SUBBUF);
}

static void test_slots_come_back(void **state)
{
	(void)state;
	ip_area_lean_prepare(area, true, 1);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_true(ip_area_lean_give_back(area));
	area->header->slots_used = 256;
	assert_false(ip_area_lean_take_back(area));
	area->header->slots_used = 257;
	assert_true(ip_area_lean_take_back(area));
	assert_true(allocated() > 1 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_how_little, begin, end),
		cmocka_unit_test_setup_teardown(test_many_threads, begin, end),
		cmocka_unit_test_setup_teardown(test_blocks_lie_behind_sub_buffers, begin, end),
		cmocka_unit_test_setup_teardown(test_what_was_used_stays, begin, end),
		cmocka_unit_test_setup_teardown(test_slots_come_back, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
