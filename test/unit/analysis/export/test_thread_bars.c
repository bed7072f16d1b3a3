/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars of threads, of more events than there is room for: the longest are there one by one, and no
 * time is missing.
 */
#include "analysis/export/thread_bars.h"
#include "test/unit/analysis/wait/kernel_writer.h"

#define ROUNDS	  50000u
#define PERIOD	  1000u
#define NUMBER	  3u /* of the system call */
#define BEGIN	  1000u
#define THIS	  7 /* runs at the begin of each round */
#define THAT	  9 /* runs for the rest of it */
#define ALL_BARS  (2 * ROUNDS)
#define IRQ_TICKS 3u
#define RUNNABLE  0x100

/* Lengths that are spread, and the same in each run of the test. */
static uint64_t run_length(uint32_t round)
{
	return 50 + round * 7919ull % 900;
}

static uint64_t call_length(uint32_t round)
{
	return 1 + round * 104729ull % 40;
}

static void softirq(struct writer *w, unsigned id, uint64_t tsc)
{
	static const uint32_t vector[8] = {1};

	put(w, id, tsc, THIS, 0, vector, ip_kernel_fields_size(id));
}

static void write_rounds(struct writer *w)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		const uint64_t begin = BEGIN + (uint64_t)i * PERIOD;

		switch_to(w, begin, THAT, RUNNABLE, THIS);
		call(w, begin + 1, THIS, NUMBER, 0);
		ret(w, begin + 1 + call_length(i), THIS, NUMBER, 0);
		if (i % 100 == 0) {
			softirq(w, IP_KERNEL_SOFTIRQ_ENTRY, begin + 45);
			softirq(w, IP_KERNEL_SOFTIRQ_EXIT, begin + 45 + IRQ_TICKS);
		}
		switch_to(w, begin + run_length(i), THIS, RUNNABLE, THAT);
		if (w->used > sizeof(w->packet) / 2)
			flush(w, "all", 0);
	}
	/* up to here it is known what they did */
	switch_to(w, BEGIN + (uint64_t)ROUNDS * PERIOD, THAT, RUNNABLE, THIS);
	flush(w, "all", 0);
}

static int setup_rounds(void **state)
{
	setup(state);
	write_rounds(*state);
	return 0;
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
		cmocka_unit_test_setup_teardown(test_no_time_is_missing, setup_rounds, teardown),
		cmocka_unit_test_setup_teardown(test_a_part_of_the_time, setup_rounds, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
