// SPDX-License-Identifier: Apache-2.0
/*
 * The area may be written by others than the process that records (a followed child, whoever it has
 * become). Whatever stands there, hooks of each mode stay within the area's file, behind which
 * nothing is mapped here that could be touched, and call and jump nowhere else: the area is filled
 * with lies, and another thread goes on filling it while hooks run.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#include "common/abi/fperf_pmu.h"
#include "common/elf/probe_list.h"
#include "runtime/payload.h"
#include "runtime/rt.h"
#include "test/unit/test.h"

#define SESSION 5u
#define SUBBUFS 16u
#define BLOCK	32768u
#define BLOCKS	4u
#define DEPTH	166u
#define NUMBERS 64u
#define FPERF	8192u
#define PMU	16384u

/* What init.c has in the runtime. */
volatile struct ip_gate *rt_gate;
struct ip_area_header *rt_header;
struct ip_slot *rt_slots;
struct ip_subbuf *rt_subbufs;
char *rt_data;
struct ip_payload *rt_payloads;
struct ip_value_program *rt_programs;
uint32_t *rt_duties;
struct ip_area_clock *rt_clock;
struct ip_filter_rule *rt_rules;
uint32_t rt_nrules = IP_AREA_RULES;
struct ip_filters *rt_filters;
struct ip_rt_private rt_private;
extern struct ip_meters *rt_blocks[IP_AREA_SLOTS];

extern __thread struct {
	struct ip_slot *slot;
	uint32_t session;
} rt_self __attribute__((tls_model("initial-exec")));

static char *area;
static uint64_t area_end, seed;
static atomic_bool ends;
static unsigned long called;

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull;
}

/* What a liar might write: little, much, what is there or nearly. */
static uint64_t lie(uint64_t *state)
{
	uint64_t r = draw(state);

	switch (r >> 8 & 15) {
	case 0:
	case 1:
		return 0;
	case 2:
		return 1;
	case 3:
		return UINT32_MAX;
	case 4:
		return UINT64_MAX;
	case 5:
		return 1ull << 63;
	case 6:
		return r >> 48;
	case 7:
		return (r & 0xffff) << 48 | (r >> 16 & 0xfff);
	case 8:
		return r >> 60;
	case 9:
		return (r >> 40 & ~7ull) | (r & 7);
	case 10:
		return r >> 32 << 32 | SESSION;
	case 11:
		return IP_SESSION_MARK | SESSION;
	case 12:
		return (uint64_t)(uintptr_t)&ends;
	case 13:
		return (r >> 33) << 32 | (r & 0x7fff);
	default:
		return r;
	}
}

/* Regions that hooks read, one about as often as another. */
static void scribble(uint64_t *state)
{
	const struct {
		uint64_t at, size;
	} regions[] = {
		{0, 4096},
		{IP_AREA_SLOTS_OFFSET, 4 * sizeof(struct ip_slot)},
		{IP_AREA_SUBBUFS_OFFSET, (SUBBUFS + 2) * sizeof(struct ip_subbuf)},
		{IP_AREA_PAYLOADS_OFFSET, NUMBERS * sizeof(struct ip_payload)},
		{IP_AREA_PROGRAMS_OFFSET, 4 * sizeof(struct ip_value_program)},
		{IP_AREA_DUTIES_OFFSET, NUMBERS * sizeof(uint32_t)},
		{IP_AREA_RULES_OFFSET, NUMBERS * sizeof(struct ip_filter_rule)},
		{IP_AREA_DATA_OFFSET, IP_SUBBUF_SIZE},
		{IP_AREA_DATA_OFFSET + IP_SUBBUF_SIZE, 4096},
		{rt_private.meters, 8192},
		{rt_private.meters + FPERF, 8192},
		{rt_private.meters + BLOCK, 8192},
		{rt_private.meters + BLOCK + FPERF, 8192},
		{rt_private.meters + BLOCK + PMU, 8192},
	};
	unsigned i = draw(state) % N_ELEMENTS(regions);
	uint64_t at = regions[i].at + (draw(state) % regions[i].size & ~3ull);

	if (!rt_nrules && at >= IP_AREA_TABLES_OFFSET && at < IP_AREA_TABLES_END)
		at = (char *)rt_duties - area +
		     at % 4096; /* there are none: test_without_tables() */
	if (draw(state) & 1)
		*(volatile uint32_t *)(area + at) = lie(state);
	else
		*(volatile uint64_t *)(area + (at & ~7ull)) = lie(state);
}

/* Duties, payloads and modes that lead somewhere. */
static void set_up_lies(uint64_t *state, uint32_t modes)
{
	for (unsigned i = 0; i < NUMBERS; i++) {
		rt_duties[i] = (draw(state) & 1 ? draw(state) % (2 * BLOCK) & ~7ull
						: draw(state) & ~7ull) |
			       draw(state) % 8;
		if (!rt_nrules)
			continue;
		rt_payloads[i] = (struct ip_payload){i + 1, 1 + i % 4};
		rt_rules[i] = (struct ip_filter_rule){draw(state) % 4, 0, i, draw(state),
						      draw(state) % 64};
	}
	rt_duties[1] = IP_DUTY(IP_DUTY_HIST, 5504);
	rt_duties[2] = IP_DUTY(IP_DUTY_FPERF, 24576);
	rt_duties[3] = IP_DUTY(IP_DUTY_COUNT, 5504 + 256);
	rt_duties[4] = IP_DUTY(IP_DUTY_USER, 5504 + 512);
	for (unsigned i = 0; rt_nrules && i < 4; i++) {
		rt_programs[i].session = SESSION;
		rt_programs[i].nops = 1 + draw(state) % 20;
		rt_programs[i].max_words = draw(state) % 600;
	}
	rt_slots[0].state = IP_SLOT_CLAIMED;
	rt_slots[0].session = modes & IP_MODES_MARKED ? SESSION | IP_SESSION_MARK : SESSION;
	rt_slots[0].modes = modes;
	rt_header->nsubbufs = draw(state) & 1 ? SUBBUFS : UINT32_MAX;
	rt_header->nfree = draw(state) & 1 ? 5 : INT32_MAX;
	rt_header->nmeters = draw(state) & 1 ? BLOCKS : UINT32_MAX;
	rt_filters->nrules = draw(state) & 1 ? NUMBERS : UINT32_MAX;
	rt_filters->frames = draw(state) & 1;
	rt_filters->callsite = 1;
	rt_filters->min_ticks = draw(state) & 1 ? 1000 : 0;
}

static void count_call(const void *call)
{
	(void)call;
	called++;
}

static void begin(uint32_t modes)
{
	*(struct ip_gate *)rt_gate = (struct ip_gate){SESSION, getpid(), SESSION, 0};
	rt_private = (struct ip_rt_private){
		.end = area_end,
		.place_last = (uint64_t)(uintptr_t)area + area_end - sizeof(struct ip_hist_tails),
		.frames = DEPTH * sizeof(struct ip_meters_frame),
		.nsubbufs = (area_end - IP_AREA_DATA_OFFSET) / IP_SUBBUF_SIZE,
		.modes = modes,
		.meters = IP_AREA_DATA_OFFSET + SUBBUFS * IP_SUBBUF_SIZE,
		.meters_size = BLOCK,
		.nmeters = BLOCKS,
		.may_read = 1,
		.user_call = (uintptr_t)count_call,
		.user_scratch = 0,
		.user_cell = 64,
		.fperf = FPERF,
		.fperf_pmu = PMU,
		.fperf_counters = 2,
		.fperf_reads = IP_FPERF_READS_CLOCK | IP_FPERF_READS_USAGE | IP_FPERF_READS_PMU};
	rt_blocks[0] = modes & IP_MODE_PAYLOADS
			       ? (struct ip_meters *)(area + rt_private.meters + BLOCK)
			       : NULL;
	rt_self.slot = rt_slots;
	rt_self.session = modes & IP_MODES_MARKED ? SESSION | IP_SESSION_MARK : SESSION;
}

/* As a stub at a site where the compiler expects a call. */
static __attribute__((noinline)) void call_hook(unsigned kind, uint32_t number)
{
	const void *hook = rt_hooks_base + rt_hooks[kind - 1][IP_REGS_CALL];

	__asm__ volatile("subq $256, %%rsp\n\tmovl %1, %%r11d\n\tcall *%0\n\taddq $256, %%rsp"
			 :
			 : "r"(hook), "r"(number)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
			   "cc");
}

static const uint32_t all_modes[] = {
	0,
	IP_MODE_COARSE,
	IP_MODE_PAYLOADS,
	IP_MODE_PAYLOADS | IP_MODE_COARSE,
	IP_MODE_CAREFUL,
	IP_MODE_CAREFUL | IP_MODE_COARSE,
	IP_MODE_OVERWRITE,
	IP_MODE_OVERWRITE | IP_MODE_CAREFUL,
	IP_MODE_CAREFUL | IP_MODE_SITES,
	IP_MODE_CAREFUL | IP_MODE_WITHIN | IP_MODE_ALONE,
	IP_MODE_CAREFUL | IP_MODE_WITHIN | IP_MODE_OVERWRITE,
	IP_MODE_MONOTONIC,
	IP_MODE_CAREFUL | IP_MODE_PAYLOADS | IP_MODE_OVERWRITE | IP_MODE_MONOTONIC,
};

static void use(uint64_t *state)
{
	unsigned kind = 1 + draw(state) % 4;
	uint32_t number = draw(state) % NUMBERS;
	struct rt_frame frame = {.general = {[RT_STACK_POINTER] = (uintptr_t)&frame}};

	/* a thread that has lost its slot claims another */
	if (draw(state) % 64 == 0) {
		rt_self.slot = NULL;
		rt_self.session = 0;
		rt_slots[draw(state) % 4].state = IP_SLOT_FREE;
	}
	if (rt_nrules && draw(state) % 4 == 0)
		rt_record_values(&frame, number, kind == IP_PROBE_TAIL_EXIT ? IP_PROBE_EXIT : kind);
	else
		call_hook(kind, number);
}

static void test_each_mode_alone(void **state)
{
	unsigned rounds = getenv("IPROBE_TEST_FULL") ? 200000 : 6000;

	(void)state;
	for (unsigned m = 0; m < N_ELEMENTS(all_modes); m++) {
		begin(all_modes[m]);
		for (unsigned i = 0; i < rounds; i++) {
			if (i % 64 == 0) {
				begin(all_modes[m]);
				set_up_lies(&seed, all_modes[m]);
			}
			for (unsigned lies = draw(&seed) % 16; lies; lies--)
				scribble(&seed);
			use(&seed);
		}
	}
	assert_true(called);
}

static void *go_on_scribbling(void *data)
{
	uint64_t state = *(uint64_t *)data;

	while (!ends)
		scribble(&state);
	return NULL;
}

static void test_each_mode_beside_a_liar(void **state)
{
	const double seconds = getenv("IPROBE_TEST_FULL") ? 20 : 0.4;
	uint64_t theirs = draw(&seed);
	pthread_t liar;

	(void)state;
	ends = false;
	assert_int_equal(pthread_create(&liar, NULL, go_on_scribbling, &theirs), 0);
	for (unsigned m = 0; m < N_ELEMENTS(all_modes); m++) {
		time_t until = clock() + seconds * CLOCKS_PER_SEC;

		while (clock() < until)
			for (unsigned i = 0; i < 1000; i++) {
				if (i % 64 == 0) {
					begin(all_modes[m]);
					set_up_lies(&seed, all_modes[m]);
				}
				use(&seed);
			}
	}
	ends = true;
	pthread_join(liar, NULL);
}

/* The tables are not mapped, since the session does not need them (runtime/area_window.c), and the
 * liar says that it does. */
static void test_without_tables(void **state)
{
	const size_t size = IP_AREA_TABLES_END - IP_AREA_TABLES_OFFSET;
	uint32_t *duties = rt_duties;

	assert_int_equal(mprotect(area + IP_AREA_TABLES_OFFSET, size, PROT_NONE), 0);
	rt_nrules = 0;
	rt_duties = (uint32_t *)(area + IP_AREA_SMALL_DUTIES);
	test_each_mode_alone(state);
	test_each_mode_beside_a_liar(state);
	assert_int_equal(mprotect(area + IP_AREA_TABLES_OFFSET, size, PROT_READ | PROT_WRITE), 0);
	rt_nrules = IP_AREA_RULES;
	rt_duties = duties;
}

#define STACK  65536u
#define PAGE   4096u
#define NUMBER 9u

static void record_on_other_stack(void)
{
	struct rt_frame frame = {.general = {[RT_STACK_POINTER] = (uintptr_t)&frame}};

	rt_record_values(&frame, NUMBER, IP_PROBE_ENTRY);
}

/* Runs the largest program there is: loads, and strings at that address behind them. */
static void run_largest(char *stack, const char *string)
{
	static uint64_t pointer;
	ucontext_t here, there;

	begin(0);
	pointer = (uintptr_t)string;
	rt_payloads[NUMBER] = (struct ip_payload){1, 1};
	for (unsigned i = 0; i < IP_PROGRAM_OPS; i++) {
		struct ip_value_program *block = &rt_programs[i / IP_PROGRAM_BLOCK_OPS];
		struct ip_value_op op = {.source = IP_VALUE_IMMEDIATE,
					 .size = 8,
					 .flags = IP_VALUE_KEEP,
					 .base = IP_VALUE_NOTHING,
					 .index = IP_VALUE_NOTHING,
					 .value = (intptr_t)&pointer};

		if (i && i <= 16) {
			op.source = IP_VALUE_LOAD;
			op.base = 0;
			op.value = 0;
			op.limit = i;
		} else if (i >= IP_PROGRAM_OPS - 10) {
			op.source =
				i == IP_PROGRAM_OPS - 10 ? IP_VALUE_IMMEDIATE : IP_VALUE_TEMPORARY;
			op.flags = IP_VALUE_STRING;
			op.base = 1 + i % 16;
			op.value = op.source == IP_VALUE_IMMEDIATE ? (intptr_t)string : 0;
			op.limit = 380;
		}
		block->session = SESSION;
		block->nops = IP_PROGRAM_OPS;
		block->max_words = IP_PROGRAM_WORDS;
		block->ops[i % IP_PROGRAM_BLOCK_OPS] = op;
	}
	assert_int_equal(getcontext(&there), 0);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = STACK;
	there.uc_link = &here;
	makecontext(&there, record_on_other_stack, 0);
	assert_int_equal(swapcontext(&here, &there), 0);
}

/* However little of its buffers a hook uses, it steps over no page of the stack. */
static void test_hooks_touch_each_page_of_the_stack(void **state)
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char is_there[STACK / PAGE];
	unsigned first = 0;

	(void)state;
	assert_true(stack != MAP_FAILED);
	madvise(stack, STACK, MADV_NOHUGEPAGE);
	run_largest(stack, (const char *)16);
	assert_int_equal(mincore(stack, STACK, is_there), 0);
	while (first < N_ELEMENTS(is_there) && !(is_there[first] & 1))
		first++;
	assert_in_range(first, 1, N_ELEMENTS(is_there) - 3);
	for (unsigned i = first; i < N_ELEMENTS(is_there); i++)
		assert_true(is_there[i] & 1);
	munmap(stack, STACK);
}

static void test_hooks_take_no_more_stack_than_documented(void **state)
{
	static char stack[STACK] __attribute__((aligned(64))), string[1024];
	unsigned left = 0;

	(void)state;
	memset(stack, 0xee, sizeof(stack));
	memset(string, 's', sizeof(string));
	run_largest(stack, string);
	while (left < STACK && (unsigned char)stack[left] == 0xee)
		left++;
	print_message("a hook with values took %u bytes\n", STACK - left);
	assert_in_range(STACK - left, RT_VALUES_STACK - 4096, RT_VALUES_STACK);
}

static int group_setup(void **state)
{
	uint64_t size = IP_AREA_DATA_OFFSET + SUBBUFS * IP_SUBBUF_SIZE + BLOCKS * BLOCK,
		 window = 512ull << 20;
	const char *given = getenv("IPROBE_SEED");
	int fd = memfd_create("area", MFD_CLOEXEC);

	(void)state;
	seed = given ? strtoull(given, NULL, 0) : __rdtsc() | 1;
	print_message("IPROBE_SEED=%#lx\n", seed);
	if (fd < 0 || ftruncate(fd, size) < 0)
		return -1;
	/* in front of it and behind it nothing; behind the file's end a SIGBUS */
	area = mmap(NULL, window + (2ull << 32), PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		return -1;
	area = mmap(area + (1ull << 32), window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    0);
	if (area == MAP_FAILED)
		return -1;
	area_end = size;
	rt_gate = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	rt_header = (struct ip_area_header *)area;
	rt_slots = (struct ip_slot *)(area + IP_AREA_SLOTS_OFFSET);
	rt_subbufs = (struct ip_subbuf *)(area + IP_AREA_SUBBUFS_OFFSET);
	rt_data = area + IP_AREA_DATA_OFFSET;
	rt_payloads = (struct ip_payload *)(area + IP_AREA_PAYLOADS_OFFSET);
	rt_programs = (struct ip_value_program *)(area + IP_AREA_PROGRAMS_OFFSET);
	rt_duties = (uint32_t *)(area + IP_AREA_DUTIES_OFFSET);
	rt_clock = (struct ip_area_clock *)(area + IP_AREA_CLOCK_OFFSET);
	rt_rules = (struct ip_filter_rule *)(area + IP_AREA_RULES_OFFSET);
	rt_filters = (struct ip_filters *)(area + IP_AREA_FILTERS_OFFSET);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_mode_alone),
		cmocka_unit_test(test_each_mode_beside_a_liar),
		cmocka_unit_test(test_without_tables),
		cmocka_unit_test(test_hooks_touch_each_page_of_the_stack),
		cmocka_unit_test(test_hooks_take_no_more_stack_than_documented),
	};

	return cmocka_run_group_tests(tests, group_setup, NULL);
}
