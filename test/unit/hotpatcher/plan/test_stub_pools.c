/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a new pool for stubs goes: within reach of its module, and out of the way of the heap and
 * of the stack.
 */
#include "common/abi/anchor.h"
#include "hotpatcher/plan/stub_pools.h"
#include "test/unit/test.h"

#define MIB   (1ull << 20)
#define GIB   (1ull << 30)
#define SIZE  (4 * MIB)
#define REACH 0x7ff00000ull

static struct ip_mapping items[8];
static struct ip_target target = {.maps = {.items = items}};
static struct ip_module module;

static void add(uint64_t start, uint64_t size, char *path)
{
	struct ip_mapping *m = &items[target.maps.n++];

	m->start = start;
	m->end = start + size;
	m->path = path;
}

static uint64_t place(uint64_t start, uint64_t size)
{
	uint64_t at;

	module.start = start;
	module.end = start + size;
	at = ip_stub_pools_place(&target, &module, SIZE, REACH);
	if (!at)
		return 0;
	assert_int_equal(at % 4096, 0);
	assert_true(ip_stub_pools_reaches(&module, at, SIZE, REACH));
	for (size_t i = 0; i < target.maps.n; i++)
		assert_true(at >= items[i].end || at + SIZE <= items[i].start);
	return at;
}

static void test_beside_a_library(void **state)
{
	const uint64_t lib = 0x7f0000000000ull;

	(void)state;
	target.maps.n = 0;
	add(0x555500000000ull, MIB, "/bin/program");
	add(0x555500200000ull, MIB, "[heap]");
	add(lib, 8 * MIB, "/lib/one.so");
	add(lib + 8 * MIB, 8 * MIB, "/lib/two.so");
	add(lib + 20 * MIB, MIB, "/lib/three.so");
	add(0x7ffc00000000ull, MIB, "[stack]");
	/* below the libraries; the gap of 4 MiB is too narrow */
	assert_int_equal(place(lib, 8 * MIB), lib - MIB - SIZE);
	/* nothing else is mapped in between, but the stack must be able to grow */
	items[5].start = lib + 64 * MIB;
	items[5].end = lib + 65 * MIB;
	items[1].end = lib; /* a heap up to there */
	assert_int_equal(place(lib, 8 * MIB), 0);
}

static void test_beside_the_executable(void **state)
{
	(void)state;
	target.maps.n = 0;
	add(0x555500000000ull, MIB, "/bin/program");
	add(0x555500100000ull, MIB, "[heap]");
	add(0x7f0000000000ull, MIB, "/lib/one.so");
	assert_int_equal(place(0x555500000000ull, MIB), 0x555500000000ull - MIB - SIZE);
	/* a program at a low address: far above the heap, as far as a call reaches */
	target.maps.n = 0;
	add(0x400000, MIB, "/bin/program");
	add(0x500000, MIB, "[heap]");
	add(0x7f0000000000ull, MIB, "/lib/one.so");
	assert_in_range(place(0x400000, MIB), GIB, 0x400000 + REACH);
	/* it has a heap of a gigabyte and more above */
	items[1].end = items[1].start + REACH;
	assert_int_equal(place(0x400000, MIB), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_beside_a_library),
		cmocka_unit_test(test_beside_the_executable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
