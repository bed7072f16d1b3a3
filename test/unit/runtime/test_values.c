/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that read values: what they compute, what is unknown, and that guesses never become
 * values.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/trace/values.h"
#include "runtime/rt.h"
#include "runtime/values.h"
#include "test/unit/test.h"

#define NONE IP_VALUE_NOTHING
#define RSI  6u
#define RDI  7u
/* The buffer of a run ends here, and behind it nothing may be written. */
#define BEHIND 65536u

volatile struct ip_gate *rt_gate;
struct ip_rt_private rt_private;

static uint64_t words[IP_PROGRAM_WORDS];
static struct rt_guess guess;
static char *page; /* mapped; the page behind it is not */

static struct ip_value_op load(unsigned base, unsigned size, int64_t offset, unsigned to)
{
	return (struct ip_value_op){.source = IP_VALUE_LOAD,
				    .size = size,
				    .flags = IP_VALUE_KEEP,
				    .base = base,
				    .index = NONE,
				    .limit = to,
				    .value = offset};
}

static struct ip_value_op number(int64_t value, unsigned to)
{
	return (struct ip_value_op){.source = IP_VALUE_IMMEDIATE,
				    .size = 8,
				    .flags = IP_VALUE_KEEP,
				    .base = NONE,
				    .index = NONE,
				    .limit = to,
				    .value = value};
}

static struct ip_value_op in_rdi(unsigned to)
{
	return (struct ip_value_op){.source = IP_VALUE_REGISTER,
				    .size = 8,
				    .flags = IP_VALUE_KEEP,
				    .base = RDI,
				    .index = NONE,
				    .limit = to};
}

static struct ip_value_op compute(unsigned how, unsigned a, unsigned b, unsigned to)
{
	return (struct ip_value_op){.source = IP_VALUE_COMPUTE,
				    .size = 8,
				    .flags = IP_VALUE_KEEP | IP_VALUE_SIGNED,
				    .base = a,
				    .index = b,
				    .scale = how,
				    .limit = to};
}

static struct ip_value_op record(unsigned temporary)
{
	return (struct ip_value_op){
		.source = IP_VALUE_TEMPORARY, .size = 8, .base = temporary, .index = NONE};
}

static struct ip_value_op string(unsigned temporary, unsigned length, unsigned limit)
{
	return (struct ip_value_op){.source = IP_VALUE_TEMPORARY,
				    .size = 8,
				    .flags = IP_VALUE_STRING |
					     (length == NONE ? 0 : IP_VALUE_COUNTED),
				    .base = temporary,
				    .index = length,
				    .limit = limit};
}

/* Runs a program that says it needs max_words. */
static struct rt_run run_with(const struct ip_value_op *ops, uint32_t n, uint64_t rdi, uint64_t rsi,
			      uint32_t max_words)
{
	static uint8_t bytes[RT_READ_BYTES + sizeof(words) + BEHIND], behind[BEHIND];
	static struct rt_loads loads;
	struct rt_frame frame = {
		.general = {[RT_STACK_POINTER] = (uintptr_t)&frame, [RDI] = rdi, [RSI] = rsi}};
	struct rt_run r = {.frame = &frame,
			   .ops = ops,
			   .nops = n,
			   .words = words,
			   .room = max_words,
			   .unknown = ~0ull,
			   .loads = &loads};

	memset(words, 0x55, sizeof(words));
	memset(&loads, 0, sizeof(loads));
	loads.guess = &guess;
	loads.bytes = bytes;
	loads.room = RT_READ_BYTES + 8 * max_words;
	memset(bytes + loads.room, 0xee, BEHIND);
	memset(behind, 0xee, BEHIND);
	for (uint32_t i = 0; i < n; i++)
		r.strings += (ops[i].flags & IP_VALUE_STRING) != 0;
	rt_values_run(&r);
	assert_true(r.n <= max_words);
	assert_true(loads.used <= loads.room);
	assert_memory_equal(bytes + loads.room, behind, BEHIND);
	return r;
}

static struct rt_run run(const struct ip_value_op *ops, uint32_t n, uint64_t rdi)
{
	return run_with(ops, n, rdi, 0, IP_PROGRAM_WORDS);
}

struct node {
	struct node *next;
	int64_t value;
};

/* The chain x->next->next->value, three times: by loads, by right guesses, by wrong ones. */
static void test_chains_and_guesses(void **state)
{
	const struct ip_value_op ops[] = {in_rdi(0),	    load(0, 8, 0, 1), load(1, 8, 0, 2),
					  load(2, 8, 8, 3), load(1, 8, 8, 4), record(3),
					  record(4)};
	struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b)),
		    *c = calloc(1, sizeof(*c)), *d = calloc(1, sizeof(*d));
	struct rt_run r;

	(void)state;
	a->next = b;
	b->next = c;
	b->value = 22;
	c->value = 33;
	d->value = 44;
	for (int i = 0; i < 3; i++) {
		r = run(ops, N_ELEMENTS(ops), (uintptr_t)a);
		assert_int_equal(r.n, 2);
		assert_int_equal(r.missing, 0);
		assert_int_equal(words[0], 33);
		assert_int_equal(words[1], 22);
		assert_int_equal(guess.address[1], (uintptr_t)b);
		assert_int_equal(guess.address[2], (uintptr_t)&c->value);
	}
	/* what is guessed is read, and is not the value any more */
	b->next = d;
	r = run(ops, N_ELEMENTS(ops), (uintptr_t)a);
	assert_int_equal(words[0], 44);
	/* the guess leads nowhere: what is really asked for is read all the same */
	for (unsigned i = 0; i < RT_READS; i++)
		guess.address[i] = 0xdead0000, guess.size[i] = 8;
	r = run(ops, N_ELEMENTS(ops), (uintptr_t)a);
	assert_int_equal(r.missing, 0);
	assert_int_equal(words[0], 44);
	/* a guess of an address without its bytes */
	b->next = NULL;
	r = run(ops, N_ELEMENTS(ops), (uintptr_t)a);
	assert_int_equal(r.missing, 1);
	assert_int_equal(words[0], 0);
	assert_int_equal(words[1], 22);
	free(a);
	free(b);
	free(c);
	free(d);
}

static void test_memory_that_is_not_there(void **state)
{
	static const uint64_t addresses[] = {0,	    1,	      0xfff, 0x123456789000, 0x800000000000,
					     ~0ull, ~0ull - 7};
	const struct ip_value_op ops[] = {in_rdi(0),	load(0, 8, 0, 1),    load(0, 4, 4, 2),
					  number(5, 3), record(1),	     record(2),
					  record(3),	string(0, NONE, 16), string(0, 3, 16)};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(addresses); i++) {
		struct rt_run r = run(ops, N_ELEMENTS(ops), addresses[i]);

		assert_int_equal(r.missing, 3);
		assert_int_equal(words[2], 5);
		assert_true(words[3] & (addresses[i] ? IP_STRING_UNREADABLE : IP_STRING_NULL));
	}
	rt_private.may_read = 0;
	assert_int_equal(run(ops, 5, (uintptr_t)page).missing, 1);
	rt_private.may_read = 1;
}

/* Loads and strings that end with the page, or go beyond it. */
static void test_the_end_of_a_page(void **state)
{
	const struct ip_value_op ops[] = {in_rdi(0),	      load(0, 8, -8, 1), load(0, 8, -4, 2),
					  number(4, 3),	      number(9, 4),	 record(1),
					  record(2),	      string(5, 3, 64),	 string(5, 4, 64),
					  string(5, NONE, 64)};
	struct ip_value_op all[N_ELEMENTS(ops) + 1];
	struct rt_run r;

	(void)state;
	memcpy(all, ops, 5 * sizeof(*ops));
	all[5] = record(0);
	all[5].flags = IP_VALUE_KEEP;
	all[5].limit = 5;
	all[5].value = -5;
	memcpy(all + 6, ops + 5, 5 * sizeof(*ops));
	memcpy(page + 4096 - 8, "abcdefg", 8);
	for (int i = 0; i < 2; i++) {
		r = run(all, N_ELEMENTS(all), (uintptr_t)page + 4096);
		assert_int_equal(r.missing, 2);
		assert_memory_equal(words, "abcdefg", 8);
		assert_int_equal(words[2], 4); /* 4 of 4 bytes */
		assert_memory_equal(&words[3], "defg", 4);
		assert_int_equal(words[4], 5 | IP_STRING_CUT); /* 9 are wanted, 5 are there */
		assert_memory_equal(&words[5], "defg", 5);
		assert_int_equal(words[6], 4); /* up to its zero byte */
	}
}

static void test_logic_of_what_is_unknown(void **state)
{
	/* temporaries 0: 0, 1: 1, 2: unknown */
	static const struct {
		unsigned how, a, b;
		int want; /* -1: unknown */
	} cases[] = {
		{IP_COMPUTE_AND, 0, 2, 0},	{IP_COMPUTE_AND, 2, 0, 0},
		{IP_COMPUTE_AND, 1, 2, -1},	{IP_COMPUTE_AND, 1, 1, 1},
		{IP_COMPUTE_OR, 1, 2, 1},	{IP_COMPUTE_OR, 2, 1, 1},
		{IP_COMPUTE_OR, 0, 2, -1},	{IP_COMPUTE_OR, 0, 0, 0},
		{IP_COMPUTE_EQUAL, 2, 2, -1},	{IP_COMPUTE_NOT, 2, NONE, -1},
		{IP_COMPUTE_NOT, 0, NONE, 1},	{IP_COMPUTE_LESS, 0, 1, 1},
		{IP_COMPUTE_LESS, 1, 0, 0},	{IP_COMPUTE_ADD, 1, 1, 2},
		{IP_COMPUTE_SUBTRACT, 1, 1, 0}, {IP_COMPUTE_MULTIPLY, 1, 1, 1},
		{IP_COMPUTE_BITS, 1, 1, 1},	{99, 1, 1, -1},
		{IP_COMPUTE_ADD, 1, 63, -1},	{IP_COMPUTE_ADD, 200, 1, -1},
	};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		const struct ip_value_op when = {.source = IP_VALUE_WHEN, .base = 4, .index = NONE};
		const struct ip_value_op ops[] = {
			number(0, 0),
			number(1, 1),
			load(0, 8, 0, 2),
			compute(cases[i].how, cases[i].a, cases[i].b, 4),
			when,
			record(4),
		};
		struct rt_run r = run(ops, N_ELEMENTS(ops), 0);

		assert_int_equal(r.out, cases[i].want <= 0);
		assert_int_equal(r.n, cases[i].want > 0);
		if (cases[i].want > 0)
			assert_int_equal(words[0], cases[i].want);
	}
}

static void test_bits_and_signs(void **state)
{
	struct ip_value_op bits = {.source = IP_VALUE_BITS,
				   .size = 8,
				   .flags = IP_VALUE_KEEP | IP_VALUE_SIGNED,
				   .base = 0,
				   .index = 3,
				   .scale = 5,
				   .limit = 1};
	struct ip_value_op ops[] = {number(0xa8, 0), bits, record(1)};

	(void)state;
	run(ops, 3, 0);
	assert_int_equal((int64_t)words[0], -11);
	ops[1].flags = IP_VALUE_KEEP;
	run(ops, 3, 0);
	assert_int_equal(words[0], 21);
	ops[1].index = 64; /* no such bit */
	assert_int_equal(run(ops, 3, 0).missing, 1);
	ops[1].index = 0;
	ops[1].scale = 0;
	assert_int_equal(run(ops, 3, 0).missing, 1);
	ops[1].scale = 65;
	assert_int_equal(run(ops, 3, 0).missing, 1);
}

static int is_equal(const char *string, const char *text, unsigned flags, int64_t counted)
{
	struct ip_value_op compare = {.source = IP_VALUE_COMPARE,
				      .size = 8,
				      .flags = IP_VALUE_KEEP | flags |
					       (counted < 0 ? 0 : IP_VALUE_COUNTED),
				      .base = 0,
				      .index = counted < 0 ? NONE : 1,
				      .limit = 2,
				      .value = (int64_t)strlen(text)};
	struct ip_value_op ops[8] = {in_rdi(0), number(counted, 1), compare};
	uint32_t n = 3;
	struct rt_run r;

	memcpy(&ops[3], text, strlen(text));
	n += (strlen(text) + 15) / 16;
	ops[n++] = record(2);
	r = run(ops, n, (uintptr_t)string);
	return r.missing ? -1 : (int)words[0];
}

static void test_comparisons(void **state)
{
	static const char text[] = "/index.html?and=more", none[] = "";
	const char *end = page + 4096 - 4;

	(void)state;
	memcpy(page + 4096 - 4, "abcd", 4);
	assert_int_equal(is_equal(text, "/index.html?and=more", 0, -1), 1);
	assert_int_equal(is_equal(text, "/index.html?and=mor", 0, -1), 0);
	assert_int_equal(is_equal(text, "/index.html", 0, 11), 1);
	assert_int_equal(is_equal(text, "/index.html", 0, 12), 0);
	assert_int_equal(is_equal(text, "/index", IP_VALUE_BEGINS, -1), 1);
	assert_int_equal(is_equal(text, "/indey", IP_VALUE_BEGINS, -1), 0);
	assert_int_equal(is_equal(text, "/index", IP_VALUE_BEGINS, 3), 0);
	assert_int_equal(is_equal(none, "", 0, -1), 1);
	assert_int_equal(is_equal(none, "", 0, 0), 1);
	assert_int_equal(is_equal(none, "a", 0, -1), 0);
	assert_int_equal(is_equal(NULL, "a", 0, -1), -1);
	assert_int_equal(is_equal(end, "abcd", 0, 4), 1);
	assert_int_equal(is_equal(end, "abcd", IP_VALUE_BEGINS, -1), 1);
	assert_int_equal(is_equal(end, "abcd", 0, -1), -1); /* whether it ends there is unknown */
	assert_int_equal(is_equal(end, "abxd", 0, -1), 0);
}

/* A text that would reach behind the program, and one that is too long. */
static void test_programs_that_lie(void **state)
{
	struct ip_value_op ops[] = {
		number(1, 0),
		{.source = IP_VALUE_COMPARE, .flags = IP_VALUE_KEEP, .index = NONE, .value = 64},
		record(0)};

	(void)state;
	run(ops, 3, 0);
	ops[1].value = INT64_MAX;
	run(ops, 3, 0);
	ops[1].value = -1;
	assert_int_equal(run(ops, 3, 0).n, 0);
}

/* A string in a register and, behind a pointer, so many others as there are. The first one is read
 * before the loads of the others, which bring their guesses with them: those of another session,
 * whose strings were many and short. */
static void test_strings_beside_guesses_of_another_session(void **state)
{
	static const struct {
		unsigned n, limit;
	} sessions[] = {{8, 256}, {2, 1024}, {8, 32}, {4, 600}};
	static char texts[8][4096];
	static char *object[7];

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		memset(texts[i], 'a' + (int)i, sizeof(texts[i]));
	for (unsigned i = 0; i < 7; i++)
		object[i] = texts[i + 1];
	for (size_t s = 0; s < N_ELEMENTS(sessions); s++) {
		const unsigned n = sessions[s].n, limit = sessions[s].limit;
		struct ip_value_op ops[2 + 7 + 8] = {in_rdi(0), in_rdi(1)};
		uint32_t k = 2;

		ops[1].base = RSI;
		for (unsigned i = 0; i + 1 < n; i++)
			ops[k++] = load(1, 8, 8 * (int64_t)i, 2 + i);
		for (unsigned i = 0; i < n; i++)
			ops[k++] = string(i ? 1 + i : 0, NONE, limit);
		for (int call = 0; call < 3; call++) {
			struct rt_run r = run_with(ops, k, (uintptr_t)texts[0], (uintptr_t)object,
						   n * (2 + limit / 8));

			assert_int_equal(r.missing, 0);
			assert_int_equal(r.n, n * (1 + limit / 8));
			for (unsigned i = 0; i < n; i++) {
				const uint64_t *at = words + (size_t)i * (1 + limit / 8);

				assert_int_equal(*at, limit | IP_STRING_CUT);
				assert_memory_equal(at + 1, texts[i], limit);
			}
		}
	}
}

static void test_guesses_end_with_their_session(void **state)
{
	struct rt_guess *of_first = rt_values_guess(3, 10, 0x7000000), *of_second;

	(void)state;
	of_first->address[0] = 1, of_first->size[0] = 8;
	of_first->address[RT_READS - 1] = 1, of_first->size[RT_READS - 1] = 257;
	assert_ptr_equal(rt_values_guess(3, 10, 0x7000000), of_first);
	assert_int_equal(of_first->size[RT_READS - 1], 257);
	of_second = rt_values_guess(3, 11, 0x7000000);
	for (unsigned i = 0; i < RT_READS; i++)
		assert_int_equal(of_second->size[i], 0);
	of_second->size[1] = 4;
	assert_int_equal(rt_values_guess(3, 11, 0x7000000)->size[1], 4);
}

/* A program that asks for far more than the words it has counted. */
static void test_strings_that_are_longer_than_counted(void **state)
{
	static char text[65536];
	static uint64_t pointer;
	struct ip_value_op ops[14] = {number((intptr_t)&pointer, 0), load(0, 8, 0, 1)};

	(void)state;
	memset(text, 'X', sizeof(text));
	pointer = (uintptr_t)text;
	for (int i = 2; i < 14; i++) {
		ops[i] = number((intptr_t)text + 64 * i, 4000);
		ops[i].flags = IP_VALUE_STRING;
	}
	ops[2].limit = 180;
	ops[3].limit = ops[4].limit = 150;
	ops[5] = string(1, NONE, 4000);
	for (int call = 0; call < 2; call++) {
		for (unsigned i = 0; i < RT_READS; i++)
			guess.address[i] = (uintptr_t)text, guess.size[i] = 48;
		run_with(ops, N_ELEMENTS(ops), 0, 0, 24);
		assert_int_equal(words[0], 180 | IP_STRING_CUT);
	}
}

/* A load that waits for a temporary which has got another value since. */
static void test_a_load_that_is_overtaken(void **state)
{
	static uint64_t memory[2] = {7, 8};
	const struct ip_value_op ops[] = {in_rdi(0),	number(0, 3),	  load(0, 8, 0, 1),
					  number(5, 1), load(0, 8, 8, 2), record(2),
					  record(1)};

	(void)state;
	run(ops, N_ELEMENTS(ops), (uintptr_t)memory);
	assert_int_equal(words[0], 8);
	assert_int_equal(words[1], 5);
}

/* Any operations at all, with any guesses: nothing is written outside of the buffers. */
static void test_any_program(void **state)
{
	static const uint32_t limits[] = {0, 1, 7, 40, 150, 256, 1024, 4000, 70000, UINT32_MAX};
	static char memory[16384];
	static uint64_t pointers[64];
	unsigned seed = 1;

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		pointers[i] = (uintptr_t)memory + 97 * i;
	memset(memory, 'm', sizeof(memory));
	for (int program = 0; program < 20000; program++) {
		struct ip_value_op ops[48];
		uint32_t n = 1 + (uint32_t)rand_r(&seed) % N_ELEMENTS(ops);

		for (uint32_t i = 0; i < n; i++) {
			unsigned what = (unsigned)rand_r(&seed) % 8;
			unsigned temporary = (unsigned)rand_r(&seed) % 12,
				 other = (unsigned)rand_r(&seed) % 12,
				 limit = limits[(unsigned)rand_r(&seed) % N_ELEMENTS(limits)];

			if (what < 3)
				ops[i] = load(temporary, 1u << other % 4, 8 * (int64_t)other,
					      (unsigned)rand_r(&seed) % 64);
			else if (what < 6)
				ops[i] = string(temporary, what == 5 ? other : NONE, limit);
			else
				ops[i] = number((intptr_t)&pointers[4 * (what - 6) + other],
						temporary);
			if (what == 7 && other & 1) /* a string at a fixed address */
				ops[i].flags = IP_VALUE_STRING, ops[i].limit = limit;
		}
		for (unsigned i = 0; i < RT_READS && program % 3 == 0; i++) {
			guess.address[i] = (uintptr_t)memory + i;
			guess.size[i] = (uint16_t)(rand_r(&seed) % (i % 4 ? 64 : 5000));
		}
		run_with(ops, n, 0, 0, (uint32_t)rand_r(&seed) % (IP_PROGRAM_WORDS / 2));
	}
}

int main(void)
{
	static struct ip_gate gate;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chains_and_guesses),
		cmocka_unit_test(test_memory_that_is_not_there),
		cmocka_unit_test(test_the_end_of_a_page),
		cmocka_unit_test(test_logic_of_what_is_unknown),
		cmocka_unit_test(test_bits_and_signs),
		cmocka_unit_test(test_comparisons),
		cmocka_unit_test(test_programs_that_lie),
		cmocka_unit_test(test_strings_beside_guesses_of_another_session),
		cmocka_unit_test(test_guesses_end_with_their_session),
		cmocka_unit_test(test_strings_that_are_longer_than_counted),
		cmocka_unit_test(test_a_load_that_is_overtaken),
		cmocka_unit_test(test_any_program),
	};

	gate.pid = getpid();
	rt_gate = &gate;
	rt_private.may_read = 1;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page + 4096, 4096) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
