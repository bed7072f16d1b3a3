/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a point's arguments are: what compilers print, what a probe list holds, and what is
 * neither.
 */
#include "common/elf/point_args.h"
#include "test/unit/test.h"

#define NONE IP_NO_REGISTER

static struct ip_point_arg one(const char *text)
{
	struct ip_point_arg all[IP_POINT_ARGS_MAX];

	if (ip_point_args_parse(text, all) != 1)
		fail_msg("'%s': %s", text, ip_error_message());
	return all[0];
}

static void test_operands(void **state)
{
	static const struct {
		const char *text;
		struct ip_point_arg want;
	} cases[] = {
		{"?", {.operand = IP_OPERAND_UNKNOWN, .base = NONE, .index = NONE}},
		{"4@%edi", {.operand = IP_OPERAND_REGISTER, .size = 4, .base = 7, .index = NONE}},
		{"-1@%sil",
		 {.operand = IP_OPERAND_REGISTER,
		  .size = 1,
		  .base = 6,
		  .index = NONE,
		  .is_signed = true}},
		{"2@%r15w", {.operand = IP_OPERAND_REGISTER, .size = 2, .base = 15, .index = NONE}},
		{"4@%rax", {.operand = IP_OPERAND_REGISTER, .size = 4, .base = 0, .index = NONE}},
		{"8s@%rsp",
		 {.operand = IP_OPERAND_REGISTER,
		  .size = 8,
		  .base = 4,
		  .index = NONE,
		  .is_string = true}},
		{"8p@%rdi",
		 {.operand = IP_OPERAND_REGISTER,
		  .size = 8,
		  .base = 7,
		  .index = NONE,
		  .is_pointer = true}},
		{"8h@%rdi",
		 {.operand = IP_OPERAND_REGISTER,
		  .size = 8,
		  .base = 7,
		  .index = NONE,
		  .is_hex = true}},
		{"-4@$-3",
		 {.operand = IP_OPERAND_IMMEDIATE,
		  .size = 4,
		  .base = NONE,
		  .index = NONE,
		  .is_signed = true,
		  .value = -3}},
		{"8@$0xffffffffffffffff",
		 {.operand = IP_OPERAND_IMMEDIATE,
		  .size = 8,
		  .base = NONE,
		  .index = NONE,
		  .value = -1}},
		{"-8@-16(%rbp)",
		 {.operand = IP_OPERAND_MEMORY,
		  .size = 8,
		  .base = 5,
		  .index = NONE,
		  .is_signed = true,
		  .value = -16}},
		{"1@(%r12)", {.operand = IP_OPERAND_MEMORY, .size = 1, .base = 12, .index = NONE}},
		{"4@8(%rax,%rbx,4)",
		 {.operand = IP_OPERAND_MEMORY,
		  .size = 4,
		  .base = 0,
		  .index = 3,
		  .scale = 4,
		  .value = 8}},
		{"4@(%rax,%rbx)",
		 {.operand = IP_OPERAND_MEMORY, .size = 4, .base = 0, .index = 3, .scale = 1}},
		{"4@0(,%rcx,8)",
		 {.operand = IP_OPERAND_MEMORY, .size = 4, .base = NONE, .index = 1, .scale = 8}},
		{"8s@*0x4010",
		 {.operand = IP_OPERAND_MEMORY,
		  .size = 8,
		  .base = NONE,
		  .index = NONE,
		  .is_string = true,
		  .in_module = true,
		  .value = 0x4010}},
		{"2@*0x4010(,%rdi,2)",
		 {.operand = IP_OPERAND_MEMORY,
		  .size = 2,
		  .base = NONE,
		  .index = 7,
		  .scale = 2,
		  .in_module = true,
		  .value = 0x4010}},
	};

	for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
		struct ip_point_arg got = one(cases[i].text), again;
		char text[128];

		if (memcmp(&got, &cases[i].want, sizeof(got)))
			fail_msg("'%s' is read as something else", cases[i].text);
		ip_point_arg_format(&got, text, sizeof(text));
		again = one(text);
		assert_memory_equal(&again, &got, sizeof(got));
	}
}

static void test_symbols(void **state)
{
	struct ip_point_arg a = one("-4@counter.0(%rip)");

	assert_int_equal(a.operand, IP_OPERAND_SYMBOL);
	assert_int_equal(a.symbol_length, strlen("counter.0"));
	assert_memory_equal(a.symbol, "counter.0", a.symbol_length);
	assert_true(a.in_module && a.value == 0 && a.base == NONE);
	a = one("8@_ZN1a1bE+16-4(%rip)");
	assert_int_equal(a.value, 12);
	assert_int_equal(a.symbol_length, strlen("_ZN1a1bE"));
	a = one("1@table+1(,%rdi,8)");
	assert_true(a.operand == IP_OPERAND_SYMBOL && a.index == 7 && a.scale == 8 && a.value == 1);
	a = one("4@table");
	assert_true(a.operand == IP_OPERAND_SYMBOL && a.symbol_length == 5);
}

static void test_several(void **state)
{
	struct ip_point_arg all[IP_POINT_ARGS_MAX];

	assert_int_equal(ip_point_args_parse("", all), 0);
	assert_int_equal(ip_point_args_parse("4@%edi ? 8s@-16(%rbp)", all), 3);
	assert_int_equal(all[2].value, -16);
	assert_int_equal(ip_point_args_parse("? ? ? ? ? ?", all), 6);
	assert_int_equal(ip_point_args_parse("? ? ? ? ? ? ?", all), -1);
	assert_error("more than 6");
}

static void test_nonsense(void **state)
{
	static const char *const bad[] = {
		" ",
		"??",
		"4",
		"4@",
		"@%edi",
		"3@%edi",
		"16@%rax",

		"4@%",
		"4@%zax",
		"4@%ah",
		"8@%edi",
		"4@%rip",
		"4@$",
		"4@$x",
		"4@$0x",
		"4@5",
		"4@()",
		"4@(",
		"4@(%rax",
		"4@(%eax)",
		"4@(%rax,)",
		"4@(%rax,%rbx,3)",
		"4@(%rip)",
		"4@8(%rip)",
		"4@a(%rip,%rax)",
		"4@a+(%rip)",
		"4@*",
		"4@*x",
		"4s@%edi",
		"-8s@%rdi",
		"4@%edi ",
		" 4@%edi",
		"4@%edi  4@%edi",
		"4@$99999999999999999999",
		"4@%fs:x@tpoff",
		"4@a@GOTPCREL(%rip)",
		"4@%edi\n",
		"4@-(%rax)",
		"4@DWORD PTR [rbp-4]",
	};
	struct ip_point_arg all[IP_POINT_ARGS_MAX];

	for (size_t i = 0; i < N_ELEMENTS(bad); i++) {
		if (ip_point_args_parse(bad[i], all) >= 0)
			fail_msg("'%s' is taken", bad[i]);
		assert_error("is no argument of a point");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
