/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States of a site: each form of ours, and what others make of it, is told by its bytes alone.
 */
#include <stdlib.h>

#include "hotpatcher/patch/site_state.h"
#include "test/unit/fake_target.h"
#include "test/unit/test.h"

#define SITE	   0x401000ull
#define POOL	   0x600000ull
#define POOL_SIZE  0x10000ull
#define ROOM	   0x700000ull
#define TRAMPOLINE 0x900000ull
#define TRAP	   0xcc

static const struct {
	unsigned form, length;
} forms[] = {{IP_FORM_CALL, 5},	  {IP_FORM_CALL, 6}, {IP_FORM_RETURN, 5},
	     {IP_FORM_RETURN, 6}, {IP_FORM_JUMP, 5}, {IP_FORM_JUMP, 6}};

static struct ip_target *target;

static int begin(void **state)
{
	(void)state;
	target = fake_target_open();
	fake_target_set_runtime(target, 0x800000, POOL, POOL_SIZE);
	fake_target_map(target, TRAMPOLINE, 0x1000, "r-xp", "[uprobes-trampoline]", 0, 0);
	target->rooms = calloc(1, sizeof(*target->rooms));
	target->rooms[0] = (struct ip_stub_room){ROOM, 0x1000};
	target->nrooms = 1;
	return 0;
}

static int end(void **state)
{
	(void)state;
	ip_target_close(target);
	return 0;
}

static enum ip_site_state state_at(size_t f, uint64_t address, const uint8_t *bytes)
{
	return ip_site_state_of_form(target, forms[f].form, forms[f].length, IP_REGS_CALL, 0,
				     address, bytes);
}

static void make_live(size_t f, uint64_t stub, uint8_t *ret)
{
	assert_int_equal(target->arch->live(forms[f].form, forms[f].length, SITE, stub, ret), 0);
}

static void test_ours(void **state)
{
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		assert_int_equal(target->arch->idle(forms[f].form, forms[f].length, 0, bytes), 0);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_IDLE);
		make_live(f, POOL, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_LIVE);
		make_live(f, POOL + POOL_SIZE - 1, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_LIVE);
		make_live(f, ROOM, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_LIVE);
	}
}

/* A call of the right form to where no stubs are is somebody else's, also one byte behind the
 * pool, and anywhere once the target has no runtime. */
static void test_calls_of_others(void **state)
{
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		make_live(f, POOL + POOL_SIZE, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
		make_live(f, POOL - 1, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
		make_live(f, ROOM + 0x1000, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
	}
	target->has_runtime = false;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		make_live(f, POOL, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
	}
}

static void test_breakpoints(void **state)
{
	uint8_t bytes[IP_SITE_MAX], idle[IP_SITE_MAX];

	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		unsigned length = forms[f].length;
		/* of six bytes, a call's first byte is a prefix: what is left without it tells */
		assert_int_equal(target->arch->idle(forms[f].form, length, 0, idle), 0);
		memcpy(bytes, idle, length);
		bytes[0] = TRAP;
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_TRAPPED_IDLE);
		make_live(f, POOL, bytes);
		bytes[0] = TRAP;
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_TRAPPED_LIVE);
		/* it has gone: the kernel has put the file's byte back */
		bytes[0] = idle[0];
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_ORPHAN);
		/* of somebody else's call nothing is ours, with or without a breakpoint on it */
		make_live(f, POOL + POOL_SIZE, bytes);
		bytes[0] = TRAP;
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
		bytes[0] = idle[0];
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
		/* a breakpoint is one byte: any other difference is no breakpoint */
		memcpy(bytes, idle, length);
		bytes[0] = TRAP;
		bytes[length - 1] ^= 1;
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
	}
}

static void test_calls_of_the_kernel(void **state)
{
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		make_live(f, TRAMPOLINE + 8, bytes);
		assert_int_equal(state_at(f, SITE, bytes), IP_SITE_KERNEL);
	}
	/* it makes a call of every NOP of five bytes, that of a site that jumps, too */
	assert_int_equal(target->arch->live(IP_FORM_CALL, 5, SITE, TRAMPOLINE, bytes), 0);
	assert_int_equal(
		ip_site_state_of_form(target, IP_FORM_JUMP, 5, IP_REGS_ALL, 0, SITE, bytes),
		IP_SITE_KERNEL);
	/* its mapping has gone, and something else has come */
	target->maps.items[0].path[1] = 'x';
	assert_int_equal(
		ip_site_state_of_form(target, IP_FORM_JUMP, 5, IP_REGS_ALL, 0, SITE, bytes),
		IP_SITE_FOREIGN);
}

/* Half a site's transit form counts only where the site lies on two pages. */
static void test_transit(void **state)
{
	(void)state;
	for (size_t f = 0; f < N_ELEMENTS(forms); f++) {
		unsigned length = forms[f].length;

		for (unsigned split = 1; split < length; split++) {
			uint64_t address = SITE + 0x1000 - split;
			uint8_t bytes[IP_SITE_MAX];
			unsigned n;

			assert_int_equal(
				target->arch->live(forms[f].form, length, address, POOL, bytes), 0);
			n = target->arch->transit(forms[f].form, IP_REGS_CALL, length, split,
						  bytes);
			/* no such site is ever written (JUMP, 6 bytes, one in front); a return
			 * stays the return that it is */
			if (!n)
				continue;
			if (forms[f].form == IP_FORM_CALL && length == 6 && split == 1)
				assert_int_equal(state_at(f, address, bytes), IP_SITE_LIVE);
			else
				assert_int_equal(state_at(f, address, bytes), IP_SITE_TRANSIT);
			if (n == 2 || bytes[0] == 0xa9)
				assert_int_equal(state_at(f, SITE, bytes), IP_SITE_FOREIGN);
		}
	}
	/* flags that are live keep it from ever being written so */
	assert_int_equal(ip_site_state_of_form(target, IP_FORM_CALL, 5, IP_REGS_ALL, 0,
					       SITE + 0xfff,
					       (const uint8_t[IP_SITE_MAX]){0xa9, 1, 2, 3, 4}),
			 IP_SITE_FOREIGN);
	assert_int_equal(ip_site_state_of_form(target, IP_FORM_CALL, 5, IP_REGS_ENTRY, 0,
					       SITE + 0xfff,
					       (const uint8_t[IP_SITE_MAX]){0xa9, 1, 2, 3, 4}),
			 IP_SITE_TRANSIT);
}

/* What may be done with each: bytes of ours have to go, others' hands are left alone. */
static void test_whose(void **state)
{
	static const struct {
		enum ip_site_state state;
		bool ours, foreign;
	} want[] = {{IP_SITE_IDLE, false, false},	{IP_SITE_LIVE, true, false},
		    {IP_SITE_TRANSIT, true, false},	{IP_SITE_ORPHAN, true, true},
		    {IP_SITE_TRAPPED_LIVE, true, true}, {IP_SITE_TRAPPED_IDLE, false, true},
		    {IP_SITE_KERNEL, false, true},	{IP_SITE_FOREIGN, false, true}};
	const struct ip_pl_probe flags_dead = {.form = IP_FORM_CALL,
					       .length = 5,
					       .regs = IP_REGS_ALL,
					       .flags = IP_PROBE_FLAGS_DEAD};
	const uint8_t half[IP_SITE_MAX] = {0xa9, 1, 2, 3, 4};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(want); i++) {
		assert_int_equal(ip_site_is_ours(want[i].state), want[i].ours);
		assert_int_equal(ip_site_is_foreign(want[i].state), want[i].foreign);
		assert_non_null(ip_site_state_name(want[i].state));
	}
	/* the probe says that its flags are dead, so such a site can be in transit */
	assert_int_equal(ip_site_state(target, target->arch, &flags_dead, SITE + 0xfff, half),
			 IP_SITE_TRANSIT);
	/* sites that the machine does not have are nobody's */
	assert_int_equal(ip_site_state_of_form(target, 9, 5, 0, 0, SITE, half), IP_SITE_FOREIGN);
	assert_int_equal(ip_site_state_of_form(target, IP_FORM_CALL, 7, 0, 0, SITE, half),
			 IP_SITE_FOREIGN);
}

static enum ip_site_state state_of_tail(uint64_t address, const uint8_t *bytes)
{
	return ip_site_state_of_form(target, IP_FORM_TAIL, 5, IP_REGS_ALL, 0x1234, address, bytes);
}

/* Idle and live are jumps, and any other jump is another program's, also where the site crosses a
 * page: nothing lies between the two. */
static void test_tail_jumps(void **state)
{
	const uint64_t sites[] = {SITE, SITE + 0xfff};
	uint8_t bytes[IP_SITE_MAX];

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(sites); i++) {
		assert_int_equal(target->arch->idle(IP_FORM_TAIL, 5, 0x1234, bytes), 0);
		assert_int_equal(state_of_tail(sites[i], bytes), IP_SITE_IDLE);
		bytes[0] = TRAP;
		assert_int_equal(state_of_tail(sites[i], bytes), IP_SITE_TRAPPED_IDLE);
		assert_int_equal(target->arch->idle(IP_FORM_TAIL, 5, 0x1235, bytes), 0);
		assert_int_equal(state_of_tail(sites[i], bytes), IP_SITE_FOREIGN);
		assert_int_equal(target->arch->live(IP_FORM_TAIL, 5, sites[i], POOL, bytes), 0);
		assert_int_equal(state_of_tail(sites[i], bytes), IP_SITE_LIVE);
		bytes[0] = TRAP;
		assert_int_equal(state_of_tail(sites[i], bytes), IP_SITE_TRAPPED_LIVE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_ours, begin, end),
		cmocka_unit_test_setup_teardown(test_calls_of_others, begin, end),
		cmocka_unit_test_setup_teardown(test_breakpoints, begin, end),
		cmocka_unit_test_setup_teardown(test_calls_of_the_kernel, begin, end),
		cmocka_unit_test_setup_teardown(test_transit, begin, end),
		cmocka_unit_test_setup_teardown(test_whose, begin, end),
		cmocka_unit_test_setup_teardown(test_tail_jumps, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
