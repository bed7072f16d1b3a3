/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars of threads, of more events than there is room for: the longest are there one by one, and no
 * time is missing.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analysis/export/thread_bars.h"
#include "common/dir.h"
#include "common/trace/trace_format.h"
#include "test/unit/test.h"

#define ROUNDS	  50000u
#define PERIOD	  1000u
#define NUMBER	  3u /* of the system call */
#define BEGIN	  1000u
#define THIS	  7 /* runs at the begin of each round */
#define THAT	  9 /* runs for the rest of it */
#define ALL_BARS  (2 * ROUNDS)
#define IRQ_TICKS 3u

/* Lengths that are spread, and the same in each run of the test. */
static uint64_t run_length(uint32_t round)
{
	return 50 + round * 7919ull % 900;
}

static uint64_t call_length(uint32_t round)
{
	return 1 + round * 104729ull % 40;
}

struct writer {
	struct ip_dir_place place;
	char path[PATH_MAX];
	int file;
	uint8_t packet[65536];
	uint32_t used;
	uint64_t begin, end, packets;
};

static void flush(struct writer *w)
{
	struct ip_kernel_packet_header h = {.magic = IP_CTF_MAGIC,
					    .timestamp_begin = w->begin,
					    .timestamp_end = w->end,
					    .content_size = w->used * 8ull,
					    .packet_size = w->used * 8ull,
					    .packet_seq_num = w->packets++};

	memcpy(w->packet, &h, sizeof(h));
	assert_int_equal(write(w->file, w->packet, w->used), w->used);
	w->used = 0;
}

static void put(struct writer *w, unsigned id, uint64_t tsc, int32_t tid, const void *fields)
{
	const struct ip_kernel_event_header h = {.id = id, .tsc = tsc, .tid = tid};
	const size_t size = ip_kernel_fields_size(id);

	if (w->used + sizeof(h) + size > sizeof(w->packet))
		flush(w);
	if (!w->used) {
		w->used = sizeof(struct ip_kernel_packet_header);
		w->begin = tsc;
	}
	memcpy(w->packet + w->used, &h, sizeof(h));
	memcpy(w->packet + w->used + sizeof(h), fields, size);
	w->used += sizeof(h) + size;
	w->end = tsc;
}

static void switch_to(struct writer *w, uint64_t tsc, int32_t prev, int32_t next)
{
	const struct {
		char prev_comm[16];
		int32_t prev_tid, prev_prio;
		int64_t prev_state;
		char next_comm[16];
		int32_t next_tid, next_prio;
	} __attribute__((packed)) fields = {"prev", prev, 120, 0x100, "next", next, 120};

	put(w, IP_KERNEL_SCHED_SWITCH, tsc, prev, &fields);
}

static void write_rounds(struct writer *w)
{
	static const uint64_t none[6];
	static const uint32_t vector[8] = {1};

	for (uint32_t i = 0; i < ROUNDS; i++) {
		const uint64_t begin = BEGIN + (uint64_t)i * PERIOD;

		switch_to(w, begin, THAT, THIS);
		put(w, IP_KERNEL_SYSCALL_ENTRY + NUMBER, begin + 1, THIS, none);
		put(w, IP_KERNEL_SYSCALL_EXIT + NUMBER, begin + 1 + call_length(i), THIS, none);
		if (i % 100 == 0) {
			put(w, IP_KERNEL_SOFTIRQ_ENTRY, begin + 45, THIS, vector);
			put(w, IP_KERNEL_SOFTIRQ_EXIT, begin + 45 + IRQ_TICKS, THIS, vector);
		}
		switch_to(w, begin + run_length(i), THIS, THAT);
	}
	/* up to here it is known what they did */
	switch_to(w, BEGIN + (uint64_t)ROUNDS * PERIOD, THAT, THIS);
	flush(w);
}

static int setup(void **state)
{
	struct writer *w = calloc(1, sizeof(*w));
	int made;

	assert_non_null(w);
	made = ip_dir_make_temporary("/tmp", "test-bars", &w->place);
	assert_true(made >= 0);
	snprintf(w->path, sizeof(w->path), "/tmp/%s", w->place.name);
	assert_int_equal(mkdirat(made, IP_KERNEL_SUBDIR, 0700), 0);
	w->file = openat(made, IP_KERNEL_SUBDIR "/all_0", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(w->file >= 0);
	close(made);
	write_rounds(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct writer *w = *state;

	close(w->file);
	ip_dir_remove(w->place.parent, w->place.name);
	ip_dir_place_close(&w->place);
	free(w);
	return 0;
}

static struct ip_states *states_of(struct writer *w)
{
	struct ip_kernel_reader *reader;
	struct ip_states *states;

	assert_int_equal(ip_kernel_reader_open(w->path, &reader), 1);
	states = ip_states_read(reader);
	assert_non_null(states);
	assert_null(*ip_kernel_reader_damage(reader));
	ip_kernel_reader_close(reader);
	return states;
}

static uint64_t kept(const struct ip_bar_set *set, uint32_t thread, unsigned state)
{
	uint64_t ticks = 0;

	for (size_t i = 0; i < set->n; i++)
		if (set->items[i].thread == thread && set->items[i].state == state)
			ticks += set->items[i].to - set->items[i].from;
	return ticks;
}

static uint64_t summed(const struct ip_thread_bars *b, const struct ip_bar_set *set,
		       uint32_t thread, unsigned state)
{
	uint64_t ticks = 0;

	for (size_t i = 0; set->sums && i < b->nslices; i++)
		ticks += set->sums[(thread * b->nslices + i) * (IP_THREAD_GONE + 1) + state];
	return ticks;
}

static void check_order(const struct ip_bar_set *set)
{
	for (size_t i = 1; i < set->n; i++) {
		const struct ip_thread_bar *before = &set->items[i - 1], *bar = &set->items[i];

		assert_true(before->thread < bar->thread ||
			    (before->thread == bar->thread && before->to <= bar->from));
	}
}

/* How many bars of a set are longer. */
static size_t longer(const struct ip_bar_set *set, uint64_t ticks)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		n += set->items[i].to - set->items[i].from > ticks;
	return n;
}

static uint64_t shortest(const struct ip_bar_set *set)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < set->n; i++)
		if (set->items[i].to - set->items[i].from < least)
			least = set->items[i].to - set->items[i].from;
	return least;
}

static struct ip_thread_bars *collect(struct writer *w, const struct ip_states *states,
				      uint64_t begin, uint64_t end)
{
	struct ip_thread_packets runs[] = {
		{.pid = THIS, .tid = THIS, .begin = BEGIN, .bytes = 8},
		{.pid = THIS, .tid = THAT, .begin = BEGIN, .bytes = 8},
		{.pid = THIS, .tid = THAT, .begin = BEGIN + 10, .bytes = 8},
		{.pid = 1, .tid = 1, .begin = BEGIN, .off = true}};
	struct ip_trace_reader trace;
	struct ip_thread_bars *b;

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++)
		runs[i].machine_tid = runs[i].tid;
	trace = (struct ip_trace_reader){.dir = w->path,
					 .runs = runs,
					 .nruns = sizeof(runs) / sizeof(*runs),
					 .begin = begin,
					 .end = end};
	b = ip_thread_bars_collect(&trace, states, 0);
	assert_non_null(b);
	assert_int_equal(b->nthreads, 2);
	assert_int_equal(b->beyond, 0);
	return b;
}

static void test_no_time_is_missing(void **state)
{
	struct writer *w = *state;
	struct ip_states *states = states_of(w);
	const uint64_t end = BEGIN + (uint64_t)ROUNDS * PERIOD;
	struct ip_thread_bars *b = collect(w, states, BEGIN, end);
	uint64_t run = 0, in_call = 0, least;
	size_t wanted = 0;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		run += run_length(i);
		in_call += call_length(i);
	}
	check_order(&b->states);
	check_order(&b->calls);
	assert_int_equal(b->states.n + b->states.left_out, 2 * ALL_BARS);
	assert_true(b->states.n < ALL_BARS);
	assert_int_equal(kept(&b->states, 0, IP_THREAD_RUNNING) +
				 summed(b, &b->states, 0, IP_THREAD_RUNNING),
			 run);
	assert_int_equal(kept(&b->states, 0, IP_THREAD_RUNNABLE) +
				 summed(b, &b->states, 0, IP_THREAD_RUNNABLE),
			 end - BEGIN - run);
	assert_int_equal(kept(&b->states, 1, IP_THREAD_RUNNABLE) +
				 summed(b, &b->states, 1, IP_THREAD_RUNNABLE),
			 run);
	assert_int_equal(b->calls.n + b->calls.left_out, ROUNDS);
	assert_true(b->calls.left_out > 0);
	assert_int_equal(kept(&b->calls, 0, 0) + summed(b, &b->calls, 0, 0), in_call);
	/* none that is longer than one that is there is missing */
	least = shortest(&b->states);
	for (uint32_t i = 0; i < ROUNDS; i++)
		wanted += 2 * (run_length(i) > least) + 2 * (PERIOD - run_length(i) > least);
	assert_int_equal(longer(&b->states, least), wanted);
	wanted = 0;
	least = shortest(&b->calls);
	for (uint32_t i = 0; i < ROUNDS; i++)
		wanted += call_length(i) > least;
	assert_int_equal(longer(&b->calls, least), wanted);
	assert_int_equal(b->interrupts.n, ROUNDS / 100);
	assert_int_equal(kept(&b->interrupts, 0, 0), ROUNDS / 100 * IRQ_TICKS);
	assert_int_equal(b->interrupts.items[0].number, IP_KERNEL_SOFTIRQ_ENTRY);
	assert_int_equal(b->interrupts.items[0].other, 1);
	ip_thread_bars_destroy(b);
	ip_states_destroy(states);
}

/* Bars are cut at the begin and the end. */
static void test_a_part_of_the_time(void **state)
{
	struct writer *w = *state;
	struct ip_states *states = states_of(w);
	const uint64_t begin = BEGIN + 20, end = begin + PERIOD;
	struct ip_thread_bars *b = collect(w, states, begin, end);

	assert_int_equal(b->states.left_out, 0);
	assert_null(b->states.sums);
	for (uint32_t thread = 0; thread < 2; thread++)
		assert_int_equal(kept(&b->states, thread, IP_THREAD_RUNNING) +
					 kept(&b->states, thread, IP_THREAD_RUNNABLE),
				 PERIOD);
	assert_int_equal(b->states.items[0].from, begin);
	assert_int_equal(b->states.items[b->states.n - 1].to, end);
	ip_thread_bars_destroy(b);
	/* of no time at all there is none */
	b = collect(w, states, end, end);
	assert_int_equal(b->states.n + b->calls.n + b->interrupts.n, 0);
	ip_thread_bars_destroy(b);
	ip_states_destroy(states);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_time_is_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_part_of_the_time, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
