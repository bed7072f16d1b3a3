/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counters that took turns, were off, or are of another opening: what comes of two readings. And
 * one that is off at a page, where no rdpmc is made.
 */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "common/abi/anchor.h"
#include "runtime/fperf_pmu.h"
#include "test/unit/test.h"

#define US 1000ull

struct fixture {
	struct ip_pmu_set set;
	struct ip_pmu_thread *t;
	struct rt_pmu_reading from, to;
	struct rt_pmu_values got;
};

struct ip_rt_private rt_private = {.fperf_counters = IP_PMU_COUNTERS};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->t = calloc(1, IP_PMU_PLACE_SIZE(IP_PMU_COUNTERS));
	f->t->state = IP_PMU_GROUP;
	f->set.ncounters = 3;
	f->set.nevents = 2;
	f->set.events[0].uses = 1; /* the first counter */
	f->set.events[0].weights[0] = 1;
	f->set.events[1].uses = 6; /* the second less the third */
	f->set.events[1].weights[1] = 1;
	f->set.events[1].weights[2] = -1;
	f->from = f->to = (struct rt_pmu_reading){.generation = 1, .ncounters = 3};
	for (unsigned i = 0; i < 3; i++) {
		f->from.marks[i] =
			(struct ip_pmu_mark){.value = 1000, .enabled = 5 * US, .running = 3 * US};
		f->to.marks[i] = (struct ip_pmu_mark){
			.value = 1100 + 100 * i, .enabled = 9 * US, .running = 7 * US};
	}
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->t);
	free(f);
	return 0;
}

static void since(struct fixture *f)
{
	rt_pmu_note(&f->set, f->t, 5, &f->from);
	rt_pmu_since(&f->set, f->t, 5, &f->to, &f->got);
}

static void test_sums(void **state)
{
	struct fixture *f = *state;

	f->to.marks[1].value = 2000;
	since(f);
	assert_int_equal(f->got.missing | f->got.scaled, 0);
	assert_int_equal(f->got.value[0], 100);
	assert_int_equal(f->got.value[1], 1000 - 300);
}

static void test_another_opening(void **state)
{
	struct fixture *f = *state;

	f->to.generation = 2;
	since(f);
	assert_int_equal(f->got.missing & 3, 3);
	f->from.generation = f->to.generation = 0; /* neither could be read */
	since(f);
	assert_int_equal(f->got.missing & 3, 3);
}

static void test_turns(void **state)
{
	struct fixture *f = *state;

	f->to.marks[2].running -= 2 * US; /* the third had half of the time */
	since(f);
	assert_int_equal(f->got.missing, 2);
	f->set.scale = 1;
	since(f);
	assert_int_equal(f->got.missing, 0);
	assert_int_equal(f->got.scaled, 2);
	assert_int_equal(f->got.value[0], 100);
	assert_int_equal((int64_t)f->got.value[1], 200 - 600);
	f->to.marks[2].running = f->from.marks[2].running; /* none at all: nothing to scale */
	since(f);
	assert_int_equal(f->got.missing, 2);
	assert_int_equal(f->got.scaled, 0);
}

static void test_switched_off(void **state)
{
	struct fixture *f = *state;

	f->to.marks[0].enabled = f->from.marks[0].enabled;
	f->to.marks[0].running = f->from.marks[0].running;
	since(f);
	assert_int_equal(f->got.missing, 1);
}

/* Of a counter that is off now the page tells what it has counted, and since when it is off. */
static void test_page_of_one_that_is_off(void **state)
{
	struct fixture *f = *state;
	struct perf_event_mmap_page *page = aligned_alloc(4096, 4096);

	memset(page, 0, sizeof(*page));
	page->offset = 4711;
	page->time_enabled = 900;
	page->time_running = 300;
	f->set.ncounters = 1;
	f->t->state = IP_PMU_PAGES;
	f->t->generation = 1;
	f->t->held[0].page = (uintptr_t)page;
	rt_pmu_read(&f->set, f->t, &f->from);
	assert_int_equal(f->from.generation,
			 0); /* whoever wrote that: it is no page that this process has mapped */
	assert_true(rt_pmu_note_page((uintptr_t)page));
	rt_pmu_read(&f->set, f->t, &f->from);
	assert_int_equal(f->from.generation, 0); /* nobody could tell for how long */
	page->cap_user_time = 1;
	page->time_mult = 1;
	page->time_shift = 0;
	page->time_offset = 0;
	rt_pmu_read(&f->set, f->t, &f->from);
	rt_pmu_read(&f->set, f->t, &f->to);
	assert_int_equal(f->from.generation, 1);
	assert_int_equal(f->from.marks[0].value, 4711);
	assert_true(f->to.marks[0].enabled > f->from.marks[0].enabled);
	assert_int_equal(f->to.marks[0].running, 300);
	since(f);
	assert_int_equal(f->got.missing & 1, 1);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_sums, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_another_opening, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_turns, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_switched_off, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_page_of_one_that_is_off, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
