/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries of one number are parts of one process, by when the recordings began and ended.
 */
#include "analysis/callstack/process_parts.h"
#include "analysis/read/members.h"
#include "test/unit/test.h"

#define PID    50u
#define PARENT 7u
#define PARTS  3u

struct times {
	uint64_t begin, end;
};

static struct ip_trace_process list[PARTS];

/* Each part has a recording that began with it. */
static void find(const struct times times[PARTS])
{
	static struct ip_recording own;
	static struct ip_recording_process told = {.pid = PID, .parent = PARENT};
	struct ip_trace_reader readers[PARTS] = {0}, *members[PARTS];
	struct ip_recording_member items[PARTS] = {0};
	struct ip_recording_members all = {.items = items, .n = PARTS};
	struct ip_recording session = {.members = &all};
	struct ip_trace_reader trace = {.session = &session,
					.process_list = list,
					.nprocesses = PARTS,
					.members = members,
					.nmembers = PARTS};

	own.processes = &told;
	own.nprocesses = 1;
	for (uint32_t i = 0; i < PARTS; i++) {
		readers[i].session = &own;
		readers[i].begin = times[i].begin;
		readers[i].end = times[i].end;
		members[i] = &readers[i];
		items[i].pid = PID;
		list[i] = (struct ip_trace_process){
			.pid = PID, .member = i, .began = true, .parent = PARENT};
	}
	assert_int_equal(ip_process_parts_find(&trace), 0);
}

static void test_one_after_the_other(void **state)
{
	(void)state;
	find((struct times[]){{100, 200}, {500, 600}, {200, 450}});
	assert_ptr_equal(list[0].later, &list[2]);
	assert_ptr_equal(list[2].later, &list[1]);
	assert_null(list[1].later);
}

static void test_at_the_same_time(void **state)
{
	(void)state;
	find((struct times[]){{100, 300}, {200, 400}, {250, 260}});
	for (unsigned i = 0; i < PARTS; i++)
		assert_null(list[i].later);
}

/* Of a damaged trace: none goes on in itself, by whatever way. */
static void test_times_that_cannot_be(void **state)
{
	static const struct times times[][PARTS] = {
		{{100, 100}, {100, 100}, {100, 100}},
		{{100, 0}, {200, 0}, {300, 0}},
		{{300, 100}, {200, 100}, {200, 50}},
	};

	(void)state;
	for (unsigned i = 0; i < N_ELEMENTS(times); i++) {
		find(times[i]);
		for (unsigned k = 0; k < PARTS; k++) {
			const struct ip_trace_process *p = &list[k];

			for (unsigned n = 0; p; n++, p = p->later)
				assert_true(n < PARTS);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_at_the_same_time),
		cmocka_unit_test(test_times_that_cannot_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
