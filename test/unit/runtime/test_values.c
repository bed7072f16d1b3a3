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
#define RDI  7u

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

static struct rt_run run(const struct ip_value_op *ops, uint32_t n, uint64_t rdi)
{
	static uint8_t bytes[RT_READ_BYTES + sizeof(words)];
	static struct rt_loads loads;
	struct rt_frame frame = {.general = {[RT_STACK_POINTER] = (uintptr_t)&frame, [RDI] = rdi}};
	struct rt_run r = {.frame = &frame,
			   .ops = ops,
			   .nops = n,
			   .words = words,
			   .room = IP_PROGRAM_WORDS,
			   .unknown = ~0ull,
			   .loads = &loads};

	memset(words, 0x55, sizeof(words));
	memset(&loads, 0, sizeof(loads));
	loads.guess = &guess;
	loads.bytes = bytes;
	loads.room = sizeof(bytes);
	for (uint32_t i = 0; i < n; i++)
		r.strings += (ops[i].flags & IP_VALUE_STRING) != 0;
	rt_values_run(&r);
	return r;
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
	};

	gate.pid = getpid();
	rt_gate = &gate;
	rt_private.may_read = 1;
	page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || munmap(page + 4096, 4096) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
