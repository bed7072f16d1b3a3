/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a change of a session is made of: groups of what goes live and idle, stops that are counted,
 * slots between two sessions.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hotpatcher/arch/x86_64/borrow.h"
#include "hotpatcher/patch/patch.h"
#include "hotpatcher/plan/plan_diff.h"
#include "hotpatcher/shm/area.h"
#include "hotpatcher/shm/late_slots.h"
#include "test/unit/test.h"

#define FUNCTIONS 7

/* Two functions go live, seven idle, each of two sites: nine groups of two. */
static void test_functions_that_go_idle_are_groups(void **state)
{
	struct ip_plan_diff d = {0};
	struct ip_change live[4] = {{.group = 0}, {.group = 0}, {.group = 5}, {.group = 5}},
			 idle[2 * FUNCTIONS] = {0}, *changes;
	uint32_t function_of[2 * FUNCTIONS];
	unsigned sites[5 + 1 + FUNCTIONS] = {0}, used = 0;
	size_t n;

	(void)state;
	for (unsigned i = 0; i < 2 * FUNCTIONS; i++)
		function_of[i] = i / 2;
	d.live.changes = live;
	d.live.nchanges = 4;
	d.idle.changes = idle;
	d.idle.function_of = function_of;
	d.idle.nchanges = 2 * FUNCTIONS;
	changes = ip_plan_diff_changes(&d, &n);
	assert_non_null(changes);
	assert_int_equal(n, 4 + 2 * FUNCTIONS);
	for (size_t i = 0; i < n; i++) {
		assert_true(changes[i].group < sizeof(sites) / sizeof(*sites));
		sites[changes[i].group]++;
	}
	for (size_t i = 0; i < sizeof(sites) / sizeof(*sites); i++) {
		assert_true(sites[i] == 0 || sites[i] == 2);
		used += sites[i] > 0;
	}
	assert_int_equal(used, 2 + FUNCTIONS);
	free(changes);
}

static void test_no_stop_is_forgotten(void **state)
{
	struct ip_patch_result *result = calloc(1, sizeof(*result));

	(void)state;
	assert_non_null(result);
	for (uint64_t i = 1; i <= IP_STOP_LOG_MAX + 3; i++) {
		const struct ip_stop_record stop = {
			.tsc = i, .ns = i == IP_STOP_LOG_MAX + 2 ? 9999 : 1, .sites = 1};

		ip_patch_result_add(result, &stop);
	}
	assert_int_equal(result->stops.n, IP_STOP_LOG_MAX);
	assert_int_equal(result->stops.more, 3);
	assert_int_equal(result->stops.more_ns, 9999);
	assert_int_equal(result->sites, IP_STOP_LOG_MAX + 3);
	free(result);
}

/* A slot whose thread may still be in a hook of the last session is given to nobody in the next
 * one, and to anybody after that. */
static void test_slots_of_late_hooks(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};
	const uint64_t no_subbuf = IP_NO_SUBBUF << IP_POSITION_BITS;
	struct ip_area *area;

	(void)state;
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	area->slots[0] = (struct ip_slot){.state = IP_SLOT_CLAIMED, .tid = 1, .cur = 77};
	area->slots[1] =
		(struct ip_slot){.state = IP_SLOT_CLAIMED, .tid = 2, .cur = 77, .guard = 0x7000};
	area->slots[2] = (struct ip_slot){.state = IP_SLOT_CLAIMING, .cur = 77};
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	assert_int_equal(area->slots[0].state, IP_SLOT_FREE);
	assert_int_equal(area->slots[0].tid, 0);
	assert_int_equal(area->slots[1].state, IP_SLOT_LATE);
	assert_int_equal(area->slots[1].guard, 0x7000);
	assert_int_equal(area->slots[2].state, IP_SLOT_UNFINISHED);
	for (int i = 0; i < 4; i++)
		assert_int_equal(area->slots[i].cur, no_subbuf);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(area->slots[i].state, IP_SLOT_FREE);
		assert_int_equal(area->slots[i].guard, 0);
	}
	ip_area_close(area);
}

/* Whether memory that hooks use may be unmapped: as long as a slot of a living thread speaks
 * against it, and for good if such a slot was given to another thread. */
static void test_late_hooks_are_not_forgotten(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20};
	const struct {
		struct ip_slot slot;
		bool first, doubt; /* says so; is never forgotten */
		bool goes_on;
	} cases[] = {
		{{.state = IP_SLOT_CLAIMED}, false, false, false},
		{{.state = IP_SLOT_CLAIMED, .guard = 0x7000}, true, true, false},
		{{.state = IP_SLOT_CLAIMED, .guard = 0x7000}, true, false, true},
		{{.state = IP_SLOT_CLAIMED, .guard = 0x7000, .tid = INT32_MAX},
		 false,
		 false,
		 false},
		{{.state = IP_SLOT_CLAIMING}, true, true, false},
		{{.state = IP_SLOT_CLAIMING}, true, false, true},
		{{.state = IP_SLOT_CLAIMED, .modes = IP_MODE_PAYLOADS, .oldest = 1},
		 true,
		 true,
		 false},
		{{.state = IP_SLOT_CLAIMED, .modes = IP_MODE_OVERWRITE, .oldest = 7},
		 false,
		 false,
		 false},
	};
	const pid_t pid = getpid();
	struct ip_area *area;
	uint32_t tid;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct ip_slot *slot;

		assert_int_equal(ip_area_create(1 << 20, &area), 0);
		assert_int_equal(ip_area_begin(area, pid, &needs), 0);
		slot = &area->slots[9];
		*slot = cases[i].slot;
		if (!slot->tid)
			slot->tid = pid;
		assert_int_equal(ip_late_slots_any(area, pid, &tid), cases[i].first);
		assert_int_equal(tid, cases[i].first ? pid : 0);
		assert_int_equal(ip_area_begin(area, pid, &needs), 0);
		assert_int_equal(ip_late_slots_any(area, pid, &tid), cases[i].first);
		if (cases[i].goes_on) { /* as the thread leaves its slot */
			slot->guard = 0;
			if (slot->state == IP_SLOT_UNFINISHED)
				slot->state = IP_SLOT_CLAIMED;
			assert_false(ip_late_slots_any(area, pid, &tid));
		}
		for (int session = 0; session < 4; session++) {
			assert_int_equal(ip_area_begin(area, pid, &needs), 0);
			assert_int_equal(slot->state, IP_SLOT_FREE);
			assert_int_equal(ip_late_slots_any(area, pid, &tid), cases[i].doubt);
			assert_int_equal(tid, 0);
		}
		ip_area_close(area);
	}
}

/* Of a late hook not only the slot: blocks of the next session lie behind its own, and sub-buffers
 * on top of it stay nobody's. */
static void test_blocks_of_late_hooks(void **state)
{
	const struct ip_area_needs counting = {.memory = 1 << 20,
					       .modes = IP_MODE_PAYLOADS,
					       .room = 1024,
					       .numbers = 64},
				   logging = {.memory = 1 << 20};
	struct ip_area *area;
	uint64_t at, block;
	unsigned taken = 0;

	(void)state;
	assert_int_equal(ip_area_create(2 << 20, &area), 0);
	assert_int_equal(ip_area_begin(area, 1, &counting), 0);
	at = area->blocks.at;
	area->slots[0] = (struct ip_slot){
		.state = IP_SLOT_FREE, .guard = 0x7000, .modes = IP_MODE_PAYLOADS, .block = 3};
	block = at + 3 * area->blocks.size;
	assert_int_equal(ip_area_begin(area, 1, &counting), 0);
	assert_int_equal(area->slots[0].state, IP_SLOT_LATE);
	assert_int_equal(area->slots[0].block, 0);
	assert_true(area->blocks.at >= block + area->blocks.size);
	for (uint32_t i = 0; i < area->nsubbufs; i++)
		taken += area->subbufs[i].state == IP_SUBBUF_OWNED;
	assert_int_equal(taken, 0);
	/* for one session */
	assert_int_equal(ip_area_begin(area, 1, &counting), 0);
	assert_int_equal(area->slots[0].state, IP_SLOT_FREE);
	assert_int_equal(area->blocks.at, at);

	/* a guard that was taken for stale */
	area->slots[5] = (struct ip_slot){
		.state = IP_SLOT_CLAIMED, .modes = IP_MODE_PAYLOADS, .block = 3, .oldest = 1};
	assert_int_equal(ip_area_begin(area, 1, &logging), 0);
	for (uint32_t i = 0; i < area->nsubbufs; i++) {
		uint64_t from = IP_AREA_DATA_OFFSET + (uint64_t)i * IP_SUBBUF_SIZE;
		bool under = from < block + 1280 && from + IP_SUBBUF_SIZE > block;

		assert_int_equal(area->subbufs[i].state, under ? IP_SUBBUF_OWNED : IP_SUBBUF_FREE);
		taken += under;
	}
	assert_in_range(taken, 1, 2);

	/* the shared block, too, where the hook reads about the user's payload */
	for (int user = 0; user < 2; user++) {
		uint64_t size, late;

		assert_int_equal(ip_area_begin(area, 1, &counting), 0);
		assert_int_equal(area->blocks.at, at);
		size = area->blocks.size;
		late = at + 100 * size;
		area->header->user = user;
		area->slots[5] = (struct ip_slot){.state = IP_SLOT_FREE,
						  .guard = 0x7000,
						  .modes = IP_MODE_PAYLOADS,
						  .block = 100};
		assert_int_equal(ip_area_begin(area, 1, &logging), 0);
		for (uint32_t i = 0; i < area->nsubbufs; i++) {
			uint64_t from = IP_AREA_DATA_OFFSET + (uint64_t)i * IP_SUBBUF_SIZE,
				 to = from + IP_SUBBUF_SIZE;
			bool under = (from < late + size && to > late) ||
				     (user && from < at + size && to > at);

			assert_int_equal(area->subbufs[i].state,
					 under ? IP_SUBBUF_OWNED : IP_SUBBUF_FREE);
		}
	}
	ip_area_close(area);
}

/* Room follows what is needed: each place is one's own, in each block, and threads that have blocks
 * keep them. */
static void test_blocks_grow(void **state)
{
	const struct ip_area_needs needs = {.memory = 1 << 20,
					    .modes = IP_MODE_PAYLOADS,
					    .room = 256,
					    .frames = true,
					    .numbers = 64};
	static uint8_t used[1 << 20];
	struct ip_area *area;
	unsigned counts = 0, hists = 0;
	uint32_t offset, inside;

	(void)state;
	assert_int_equal(ip_area_create(1 << 20, &area), 0);
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	ip_area_meters(area, 1)->state = IP_METERS_OWNED;
	memset(used, 0, sizeof(used));
	for (;; counts++) {
		uint32_t bytes = counts % 5 ? sizeof(uint64_t) : sizeof(struct ip_hist);

		offset = ip_blocks_place(area, bytes);
		if (!offset)
			break;
		hists += bytes == sizeof(struct ip_hist);
		assert_true(bytes == sizeof(uint64_t) || offset % 128 == 0);
		for (uint32_t i = 0; i < area->blocks.n; i++)
			assert_true(ip_blocks_part(area, i, offset, &inside) < area->blocks.all);
		assert_true(inside >= IP_METERS_HEAD && inside + bytes <= area->blocks.size);
		for (uint32_t i = offset; i < offset + bytes; i++)
			assert_int_equal(used[i]++, 0);
	}
	/* two blocks are left: the shared one and that of the thread */
	assert_int_equal(area->blocks.n, 2);
	assert_int_equal(area->header->nmeters, 2);
	assert_int_equal(ip_area_meters(area, 1)->state, IP_METERS_OWNED);
	assert_true(hists * sizeof(struct ip_hist) + counts * sizeof(uint64_t) > (1 << 20) / 16);

	/* a thread in the upper half keeps it from becoming room */
	assert_int_equal(ip_area_begin(area, 1, &needs), 0);
	ip_area_meters(area, area->blocks.all - 1)->state = IP_METERS_OWNED;
	while (ip_blocks_place(area, sizeof(struct ip_hist)))
		;
	assert_int_equal(area->blocks.n, area->blocks.all);
	assert_int_equal(area->header->nmeters, area->blocks.all);
	for (uint32_t i = 1; i + 1 < area->blocks.all; i++)
		assert_int_equal(ip_area_meters(area, i)->state, IP_METERS_FREE);
	ip_area_close(area);
}

/* Whatever a session needs, the memory that the target maps for it does not end with a cover: it
 * could not grow after that (rt_area_widen()). */
static void test_no_window_ends_with_a_cover(void **state)
{
	struct ip_area *area;

	(void)state;
	assert_int_equal(ip_area_create(256 << 20, &area), 0);
	for (uint64_t memory = 64 << 10; memory < 200 << 20; memory += 20480) {
		const uint64_t room = memory / 4096 % 300 * 64;
		const struct ip_area_needs needs[] = {
			{.memory = memory},
			{.memory = memory, .modes = IP_MODE_PAYLOADS, .room = room, .numbers = 64},
		};

		for (unsigned i = 0; i < 2; i++) {
			uint64_t size;
			bool tables;

			area->blocks.alone = i && memory % 3 == 0;
			if (ip_area_plan(area, 1, &needs[i], &size, &tables) < 0)
				continue;
			for (unsigned k = 0; k < IP_AREA_COVERS; k++)
				assert_true(size <= ip_area_cover(k) ||
					    size > ip_area_cover(k) + 4096);
		}
	}
	ip_area_close(area);
}

static void test_shadow_stacks_are_seen(void **state)
{
	(void)state;
	assert_true(ip_arch_tells_shadow_stack("x86_Thread_features:\tshstk \n"));
	assert_true(ip_arch_tells_shadow_stack("x86_Thread_features:\twrss shstk\n"));
	assert_false(ip_arch_tells_shadow_stack("x86_Thread_features:\t\n"));
	assert_false(ip_arch_tells_shadow_stack("x86_Thread_features_locked:\tshstk wrss \n"));
	assert_false(ip_arch_tells_shadow_stack("Name:\tshstk\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_that_go_idle_are_groups),
		cmocka_unit_test(test_no_stop_is_forgotten),
		cmocka_unit_test(test_slots_of_late_hooks),
		cmocka_unit_test(test_late_hooks_are_not_forgotten),
		cmocka_unit_test(test_blocks_of_late_hooks),
		cmocka_unit_test(test_blocks_grow),
		cmocka_unit_test(test_no_window_ends_with_a_cover),
		cmocka_unit_test(test_shadow_stacks_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
