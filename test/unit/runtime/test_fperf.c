/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which calls become samples: threads come and go, and quotas change, with the runtime's own
 * objects.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/abi/fperf.h"
#include "common/elf/probe_list.h"
#include "runtime/fperf.h"
#include "runtime/fperf_private.h"
#include "runtime/meters.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define PLACE  1024u /* offsets in a block */
#define CELL   (PLACE + (((uint32_t)IP_FPERF_PLACE_SIZE + 63) & ~63u))
#define BLOCK  (CELL + 16384u)
#define NUMBER 3u
#define STACK  0x7f0000001000ull
/* other functions, for those that jump: a number for the jumps behind each */
#define FROM 10u
#define OVER 12u
#define TO   14u

struct ip_area_header *rt_header;
struct ip_slot *rt_slots;
uint32_t *rt_duties;

struct fixture {
	struct ip_meters *shared, *own;
	struct ip_fperf_quota *control;
	struct ip_fperf_cell *cell;
	struct ip_fperf_thread *thread;
};

/* What meters.c has in the runtime. */
struct ip_rt_private rt_private;

void *rt_meters_at(struct ip_meters *m, uint64_t offset, uint64_t size)
{
	assert_true(offset <= BLOCK && size <= BLOCK - offset);
	return (char *)m + offset;
}

static struct fixture *tried;
static uint64_t way; /* how long it is from one hook to another, in the test that sets it */

static void *zeroed(size_t size)
{
	void *p = calloc(1, size);

	assert_non_null(p);
	return p;
}

static int set_up(void **state)
{
	struct fixture *f = zeroed(sizeof(*f));
	struct ip_fperf_header *h;

	rt_header = (struct ip_area_header *)zeroed(4096);
	rt_private = (struct ip_rt_private){0};
	rt_slots = (struct ip_slot *)zeroed(IP_AREA_SLOTS * sizeof(*rt_slots));
	rt_duties = (uint32_t *)zeroed(IP_AREA_DUTIES * sizeof(*rt_duties));
	f->shared = (struct ip_meters *)zeroed(BLOCK);
	f->own = (struct ip_meters *)zeroed(BLOCK);
	h = (struct ip_fperf_header *)((char *)f->shared + PLACE);
	h->abi = IP_FPERF_ABI;
	h->nevents = 1;
	h->source[0] = IP_FPERF_TSC;
	h->most_ticks = 60000;
	h->ns_per_tick = 1ull << 31;
	f->control = (struct ip_fperf_quota *)((char *)f->shared + CELL);
	f->thread = (struct ip_fperf_thread *)((char *)f->own + PLACE);
	f->cell = (struct ip_fperf_cell *)((char *)f->own + CELL);
	*state = tried = f;
	way = 0;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->own);
	free(f->shared);
	free(f);
	free(rt_header);
	free(rt_slots);
	free(rt_duties);
	return 0;
}

static void grant(struct fixture *f, int32_t quota, uint32_t every)
{
	f->control->quota = quota;
	f->control->every = every;
	rt_duties[NUMBER] = IP_DUTY(IP_DUTY_FPERF, CELL);
}

static void hook_of(struct fixture *f, uint32_t number, uint32_t kind)
{
	uint64_t *last =
		rt_fperf(f->own, f->shared, PLACE, IP_DUTY(IP_DUTY_FPERF, number ? CELL : PLACE),
			 number, kind, STACK);

	if (last)
		*last = cpu_clock();
}

static void hook(struct fixture *f, uint32_t kind)
{
	hook_of(f, NUMBER, kind);
}

static void spend(uint64_t ticks)
{
	uint64_t begin = cpu_clock();

	while (cpu_clock() - begin < ticks)
		;
}

/* As in hooks.S. */
void rt_fperf_try(void)
{
	hook_of(tried, 0, IP_PROBE_ENTRY);
	spend(way);
	hook_of(tried, 0, IP_PROBE_EXIT);
}

/* Whether the call was a sample. */
static int call(struct fixture *f)
{
	uint64_t before = f->cell->begun;

	hook(f, IP_PROBE_ENTRY);
	hook(f, IP_PROBE_EXIT);
	return f->cell->begun != before;
}

/* Another thread has the block: it is clean. */
static void new_thread(struct fixture *f)
{
	memset(f->own, 0, BLOCK);
}

/* Threads that make ten calls each, then end: of the first ones, which are cold, as large a share
 * are samples as of the others. */
static void test_each_call_has_the_same_chance(void **state)
{
	enum { THREADS = 20000, CALLS = 10, EVERY = 10 };
	unsigned samples[CALLS] = {0}, expected = THREADS / EVERY;
	struct fixture *f = *state;

	grant(f, INT32_MAX, EVERY);
	for (int t = 0; t < THREADS; t++) {
		new_thread(f);
		for (int c = 0; c < CALLS; c++)
			samples[c] += call(f);
	}
	/* 2000 each with a deviation of 42 */
	for (int c = 0; c < CALLS; c++)
		if (samples[c] < expected - 300 || samples[c] > expected + 300)
			fail_msg("call %d was a sample %u times, not about %u", c, samples[c],
				 expected);
}

/* The same in a thread that goes on for long. */
static void test_one_in_so_many(void **state)
{
	enum { CALLS = 200000, EVERY = 20 };
	struct fixture *f = *state;
	unsigned samples = 0;

	grant(f, INT32_MAX, EVERY);
	for (int c = 0; c < CALLS; c++)
		samples += call(f);
	assert_in_range(samples, CALLS / EVERY * 0.9, CALLS / EVERY * 1.1);
	assert_int_equal(f->cell->ended, samples);
	assert_int_equal(f->cell->calls, CALLS);
}

/* Where each call is to be a sample the first one is. */
static void test_first_quota(void **state)
{
	struct fixture *f = *state;

	grant(f, 2, 1);
	assert_true(call(f) && call(f) && !call(f));
	new_thread(f);
	grant(f, 2, 1);
	assert_true(call(f));
}

/* What was drawn for a rare sample does not hold up those of a phase in which they are to be
 * frequent. */
static void test_more_samples_from_now_on(void **state)
{
	struct fixture *f = *state;

	for (unsigned every = 1; every < 50; every += 7) {
		new_thread(f);
		grant(f, 1000, 100000);
		for (int c = 0; c < 3; c++)
			call(f);
		f->cell->skip = 150000;
		grant(f, 1000, every);
		for (unsigned c = 1; !call(f); c++)
			assert_in_range(c, 1, 2 * every - 2);
	}
}

/* What a thread's first sample takes to learn is accounted for, however long that is; and so it is
 * not in a sample around it. */
static void test_first_sample_is_accounted_for(void **state)
{
	struct fixture *f = *state;
	struct ip_fperf_header *h = (struct ip_fperf_header *)((char *)f->shared + PLACE);
	uint64_t first;

	/* system calls: what is learnt takes 32 of them, a sample two */
	rt_private.fperf_reads = IP_FPERF_READS_USAGE;
	rt_private.may_read = 1;
	h->most_ticks = 100;
	grant(f, 2, 1);
	hook(f, IP_PROBE_ENTRY);
	first = f->thread->ticks;
	assert_true(first > 10 * h->most_ticks && first <= (RT_FPERF_ONCE + 1) * h->most_ticks);
	hook(f, IP_PROBE_EXIT);
	call(f);
	/* three hooks: no more than that of what each measured, and of what it takes besides half
	 * at most (rest, fperf_read.c) */
	assert_true(f->thread->ticks - first <= 3 * (h->most_ticks + h->most_ticks / 2));
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* What lies between two hooks is taken off, be it the way from one to the other or what they do
 * besides; what the function does is not. */
static void check_times(struct fixture *f, uint32_t source, double unit)
{
	enum { CALLS = 2000, WAY = 4000, WORK = 10000 };
	struct ip_fperf_header *h = (struct ip_fperf_header *)((char *)f->shared + PLACE);

	h->source[0] = source;
	rt_private.fperf_reads = source == IP_FPERF_TASK_CLOCK ? IP_FPERF_READS_CLOCK : 0;
	rt_private.may_read = 1;
	way = WAY;
	for (uint64_t work = 0; work <= WORK; work += WORK) {
		uint64_t values[CALLS];
		double middle;

		new_thread(f);
		grant(f, INT32_MAX, 1);
		for (int c = 0; c < CALLS; c++) {
			uint64_t before = f->cell->sums[0].sum;

			hook(f, IP_PROBE_ENTRY);
			spend(way + work);
			hook(f, IP_PROBE_EXIT);
			values[c] = f->cell->sums[0].sum - before;
		}
		assert_int_equal(f->cell->ended, CALLS);
		/* in some of them others had the processor, or its host */
		qsort(values, CALLS, sizeof(*values), by_size);
		middle = values[CALLS / 2] * unit;
		if (middle > work + WAY / 4 || middle + WAY / 4 < work)
			fail_msg("source %u: %.0f ticks of %llu", source, middle,
				 (unsigned long long)work);
	}
}

static void test_the_way_between_hooks(void **state)
{
	struct fixture *f = *state;
	struct ip_fperf_header *h = (struct ip_fperf_header *)((char *)f->shared + PLACE);
	struct timespec from, to;
	uint64_t begin, ticks;

	check_times(f, IP_FPERF_TSC, 1);
	clock_gettime(CLOCK_MONOTONIC, &from);
	begin = cpu_clock();
	spend(50000000);
	ticks = cpu_clock() - begin;
	clock_gettime(CLOCK_MONOTONIC, &to);
	double ns_per_tick = ((to.tv_sec - from.tv_sec) * 1e9 + to.tv_nsec - from.tv_nsec) / ticks;
	h->ns_per_tick = ns_per_tick * 4294967296.0;
	check_times(f, IP_FPERF_TASK_CLOCK, 1 / ns_per_tick);
}

static uint32_t cell_offset(uint32_t number)
{
	return CELL + 512 * number;
}

static struct ip_fperf_cell *cell_of(struct fixture *f, uint32_t number)
{
	return (struct ip_fperf_cell *)((char *)f->own + cell_offset(number));
}

static struct ip_fperf_quota *control_of(struct fixture *f, uint32_t number)
{
	return (struct ip_fperf_quota *)((char *)f->shared + cell_offset(number));
}

/* The function takes so many samples; without any it is only counted. */
static void allow(struct fixture *f, uint32_t number, int32_t quota)
{
	*control_of(f, number) = (struct ip_fperf_quota){.quota = quota, .every = 1};
	rt_duties[number] = IP_DUTY(quota ? IP_DUTY_FPERF : IP_DUTY_COUNT, cell_offset(number));
	rt_duties[number + 1] = IP_DUTY_JUMP;
}

/* What hooks of a function with that stack pointer do, as meters.c has it. */
static void at_hook(struct fixture *f, uint32_t number, uint32_t kind, const uint64_t *sp)
{
	uint32_t word = rt_duties[number];
	uint64_t *last = NULL;
	/* as it is recorded: a tail exit's is the caller's */
	uint64_t recorded = (uintptr_t)sp + (kind == IP_PROBE_TAIL_EXIT ? 8 : 0);

	if ((word & IP_DUTY_MASK) == IP_DUTY_FPERF) {
		last = rt_fperf(f->own, f->shared, PLACE, word, number, kind, recorded);
	} else {
		if (kind == IP_PROBE_ENTRY)
			cell_of(f, number)->calls++;
		if (f->own->jumped)
			rt_fperf_pass(f->own, f->shared, PLACE, word,
				      kind == IP_PROBE_ENTRY  ? RT_FPERF_ENTRY
				      : kind == IP_PROBE_EXIT ? RT_FPERF_EXIT
							      : RT_FPERF_TAIL_EXIT,
				      recorded);
	}
	if (last)
		*last = cpu_clock();
}

static void enters(struct fixture *f, uint32_t number, const uint64_t *sp)
{
	at_hook(f, number, IP_PROBE_ENTRY, sp);
}

static void returns(struct fixture *f, uint32_t number, const uint64_t *sp)
{
	at_hook(f, number, IP_PROBE_EXIT, sp);
}

static void leaves_for_good(struct fixture *f, uint32_t number, const uint64_t *sp)
{
	at_hook(f, number, IP_PROBE_TAIL_EXIT, sp);
}

static void jumps(struct fixture *f, uint32_t number, const uint64_t *sp)
{
	rt_fperf_pass(f->own, f->shared, PLACE, rt_duties[number], RT_FPERF_JUMP,
		      (uintptr_t)sp + 8);
}

#define check_cell(f, number, n_begun, n_ended, n_tailed, n_cut)                                   \
	do {                                                                                       \
		const struct ip_fperf_cell *c = cell_of(f, number);                                \
                                                                                                   \
		if (c->begun != (n_begun) || c->ended != (n_ended) || c->tailed != (n_tailed) ||   \
		    c->cut != (n_cut))                                                             \
			fail_msg("line %d: %llu begun, %llu ended, %llu tailed, %llu cut",         \
				 __LINE__, (unsigned long long)c->begun,                           \
				 (unsigned long long)c->ended, (unsigned long long)c->tailed,      \
				 (unsigned long long)c->cut);                                      \
	} while (0)

static const uint64_t stack[64] = {[10] = 0x1234567812345678, [20] = 0x42, [30] = 0x43};

/* Whatever of the chain has samples itself, or is only counted: the first one lasts until the last
 * one returns. */
static void test_a_chain_of_jumps(void **state)
{
	enum { WORK = 400000 };
	struct fixture *f = *state;
	struct ip_fperf_header *h = (struct ip_fperf_header *)((char *)f->shared + PLACE);

	h->most_ticks = 10 * WORK;
	for (int which = 0; which < 4; which++) {
		const uint64_t began = __builtin_ia32_rdtsc();

		new_thread(f);
		allow(f, FROM, 100);
		allow(f, OVER, which & 1 ? 100 : 0);
		allow(f, TO, which & 2 ? 100 : 0);
		enters(f, FROM, &stack[20]);
		spend(WORK);
		jumps(f, FROM, &stack[20]);
		assert_int_equal(f->own->jumped, 1);
		enters(f, OVER, &stack[20]);
		spend(WORK);
		/* a call inside, which is none of the chain's */
		enters(f, TO, &stack[10]);
		returns(f, TO, &stack[10]);
		check_cell(f, FROM, 1, 0, 0, 0);
		jumps(f, OVER, &stack[20]);
		enters(f, TO, &stack[20]);
		spend(WORK);
		returns(f, TO, &stack[20]);
		check_cell(f, FROM, 1, 1, 0, 0);
		check_cell(f, OVER, which & 1, which & 1, 0, 0);
		check_cell(f, TO, which & 2, which & 2, 0, 0);
		assert_in_range(cell_of(f, FROM)->sums[0].sum, 3 * WORK,
				__builtin_ia32_rdtsc() - began);
		if (which & 1)
			assert_in_range(cell_of(f, OVER)->sums[0].sum, 2 * WORK,
					cell_of(f, FROM)->sums[0].sum - WORK / 2);
		assert_int_equal(f->own->jumped, 0);
		assert_int_equal(f->thread->top, 0);
		assert_int_equal(control_of(f, FROM)->open + control_of(f, OVER)->open, 0);
		/* the next call has nothing of it */
		enters(f, FROM, &stack[20]);
		returns(f, FROM, &stack[20]);
		check_cell(f, FROM, 2, 2, 0, 0);
	}
}

/* The last one of a chain leaves for somewhere that nobody knows. */
static void test_a_chain_that_cannot_be_followed_on(void **state)
{
	struct fixture *f = *state;

	for (int which = 0; which < 2; which++) {
		new_thread(f);
		allow(f, FROM, 100);
		allow(f, OVER, which ? 100 : 0);
		enters(f, FROM, &stack[20]);
		jumps(f, FROM, &stack[20]);
		enters(f, OVER, &stack[20]);
		leaves_for_good(f, OVER, &stack[20]);
		check_cell(f, FROM, 1, 1, 1, 0);
		check_cell(f, OVER, which, which, which, 0);
		assert_int_equal(f->own->jumped + f->thread->top, 0);
	}
}

/* A loop of jumps is one call: the one that came first. */
static void test_a_loop_of_jumps(void **state)
{
	struct fixture *f = *state;

	allow(f, FROM, 100);
	allow(f, OVER, 100);
	enters(f, FROM, &stack[20]);
	for (int i = 0; i < 100; i++) {
		jumps(f, FROM, &stack[20]);
		enters(f, OVER, &stack[20]);
		jumps(f, OVER, &stack[20]);
		enters(f, FROM, &stack[20]);
	}
	assert_int_equal(f->thread->top, 2);
	returns(f, FROM, &stack[20]);
	check_cell(f, FROM, 1, 1, 0, 0);
	check_cell(f, OVER, 1, 1, 0, 0);
	assert_int_equal(cell_of(f, FROM)->calls, 101);
	assert_int_equal(f->own->jumped + f->thread->top, 0);
}

/* What was jumped to ends by longjmp or an exception: what is called from the same place next is
 * not taken for it, nor is what is called from elsewhere. */
static void test_a_chain_that_is_unwound(void **state)
{
	struct fixture *f = *state;

	for (int which = 0; which < 4; which++) {
		new_thread(f);
		allow(f, FROM, 100);
		allow(f, OVER, 0);
		allow(f, TO, which & 1 ? 100 : 0);
		enters(f, FROM, &stack[20]);
		jumps(f, FROM, &stack[20]);
		enters(f, OVER, &stack[20]);
		/* OVER does not return */
		enters(f, which & 2 ? OVER : TO, &stack[20]);
		returns(f, which & 2 ? OVER : TO, &stack[20]);
		check_cell(f, FROM, 1, 0, 0, 1);
		assert_int_equal(f->own->jumped + f->thread->top, 0);
		assert_int_equal(control_of(f, FROM)->open, 0);
	}
	/* the caller returns, and calls again from a place further up */
	new_thread(f);
	allow(f, FROM, 100);
	allow(f, TO, 0);
	enters(f, FROM, &stack[20]);
	jumps(f, FROM, &stack[20]);
	enters(f, TO, &stack[20]);
	enters(f, TO, &stack[30]);
	check_cell(f, FROM, 1, 0, 0, 1);
	returns(f, TO, &stack[30]);
	check_cell(f, FROM, 1, 0, 0, 1);
	/* at the same place of the stack, but another return address */
	new_thread(f);
	allow(f, FROM, 100);
	enters(f, FROM, &stack[20]);
	jumps(f, FROM, &stack[20]);
	f->thread->frames[0].returns++;
	enters(f, TO, &stack[20]);
	returns(f, TO, &stack[20]);
	check_cell(f, FROM, 1, 0, 0, 1);
}

/* The entry of what was jumped to has not been seen: no exit ends the sample. */
static void test_a_jump_to_what_has_no_probes(void **state)
{
	struct fixture *f = *state;

	allow(f, FROM, 100);
	allow(f, TO, 0);
	enters(f, FROM, &stack[20]);
	jumps(f, FROM, &stack[20]);
	returns(f, TO, &stack[20]);
	check_cell(f, FROM, 1, 0, 0, 1);
	assert_int_equal(f->own->jumped + f->thread->top, 0);
	/* its function has been without probes meanwhile, or one that it needs has */
	enters(f, FROM, &stack[20]);
	jumps(f, FROM, &stack[20]);
	enters(f, TO, &stack[20]);
	control_of(f, FROM)->turn++;
	returns(f, TO, &stack[20]);
	check_cell(f, FROM, 2, 0, 0, 2);
	assert_int_equal(f->own->jumped + f->thread->top, 0);
}

/* Hooks on top of one that is at work leave the block alone. */
static void test_a_handler_in_a_hook(void **state)
{
	struct fixture *f = *state;

	allow(f, FROM, 100);
	allow(f, TO, 0);
	enters(f, FROM, &stack[20]);
	jumps(f, FROM, &stack[20]);
	f->own->busy = (uintptr_t)&stack[20] + 4096;
	enters(f, TO, &stack[20]);
	returns(f, TO, &stack[20]);
	check_cell(f, FROM, 1, 0, 0, 0);
	f->own->busy = 0;
	enters(f, TO, &stack[20]);
	returns(f, TO, &stack[20]);
	check_cell(f, FROM, 1, 1, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_call_has_the_same_chance, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_one_in_so_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_first_quota, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_more_samples_from_now_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_first_sample_is_accounted_for, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_the_way_between_hooks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_chain_of_jumps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_chain_that_cannot_be_followed_on, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_loop_of_jumps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_chain_that_is_unwound, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_jump_to_what_has_no_probes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_a_handler_in_a_hook, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
