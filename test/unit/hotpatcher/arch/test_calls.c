// SPDX-License-Identifier: Apache-2.0
/* Reading calls out of machine code (hotpatcher/arch/x86_64/calls.h). */
#include <string.h>

#include "hotpatcher/arch/x86_64/calls.h"
#include "test/unit/test.h"

#define AT 0x555555550000ull

static void test_forms(void **state)
{
	static const struct {
		uint8_t bytes[IP_CALL_LENGTH_MAX];
		unsigned bits;
		enum ip_call_form form;
		uint64_t to;
	} cases[] = {
		{{0xe8, 0x10, 0, 0, 0}, 64, IP_CALL_DIRECT, AT + 0x15},
		{{0xe9, 0xfb, 0xff, 0xff, 0xff}, 64, IP_CALL_DIRECT, AT},
		{{0xff, 0x15, 0x10, 0, 0, 0}, 64, IP_CALL_SLOT, AT + 0x16},
		{{0xff, 0x25, 0xf0, 0xff, 0xff, 0xff}, 64, IP_CALL_SLOT, AT - 10},
		{{0xe8, 0x10, 0, 0, 0}, 32, IP_CALL_DIRECT, (uint32_t)(AT + 0x15)},
		{{0xff, 0x15, 0x10, 0, 0, 0}, 32, IP_CALL_NONE, 0}, /* an absolute address there */
		{{0xff, 0xd0, 0xe8, 0, 0, 0}, 64, IP_CALL_NONE, 0}, /* call *%rax */
		{{0x0f, 0x1f, 0x44, 0, 0, 0xe8}, 64, IP_CALL_NONE, 0}, /* an idle site */
		{{0xc3, 0xe8, 0, 0, 0, 0}, 64, IP_CALL_NONE, 0},
	};

	(void)state;
	for (unsigned i = 0; i < N_ELEMENTS(cases); i++) {
		uint64_t to = 0;

		assert_int_equal(ip_call_at(cases[i].bits, AT, cases[i].bytes, &to), cases[i].form);
		if (cases[i].form != IP_CALL_NONE)
			assert_int_equal(to, cases[i].to);
	}
}

/* As ld, gold, lld and mold make them, with and without endbr64 and bnd. */
static void test_linker_stubs(void **state)
{
	static const struct {
		uint8_t bytes[IP_PLT_LENGTH];
		uint64_t slot;
	} cases[] = {
		{{0xff, 0x25, 0x10, 0, 0, 0, 0x68}, AT + 0x16},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0}, AT + 0x1a},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x10, 0, 0, 0}, AT + 0x1b},
		{{0xf2, 0xff, 0x25, 0x10, 0, 0, 0}, AT + 0x17},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xbb, 1, 2, 3, 4, 0xff, 0x25, 0x10}, AT + 0x20},
		{{0x41, 0xbb, 1, 2, 3, 4, 0xf2, 0xff, 0x25, 0x10}, 0},
		{{0xff, 0x15, 0x10, 0, 0, 0}, 0}, /* a call is none */
		{{0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0}, 0},
		{{0xf3, 0x0f, 0x1e, 0xfa, 0x68, 0, 0, 0, 0, 0xe9}, 0},
	};

	(void)state;
	for (unsigned i = 0; i < N_ELEMENTS(cases); i++) {
		assert_int_equal(ip_call_plt_slot(64, AT, cases[i].bytes), cases[i].slot);
		if (cases[i].slot)
			assert_int_equal(cases[i].bytes[ip_call_plt_jump(cases[i].bytes)], 0xff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_linker_stubs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
