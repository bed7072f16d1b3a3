/* SPDX-License-Identifier: Apache-2.0 */
/*
 * General registers of x86-64. ah, ch, dh and bh are left out: they are not the low bytes of a
 * register.
 */
#include "common/arch/registers.h"

#include <string.h>

static const char *const names[16][4] = {
	{"al", "ax", "eax", "rax"},	 {"cl", "cx", "ecx", "rcx"},
	{"dl", "dx", "edx", "rdx"},	 {"bl", "bx", "ebx", "rbx"},
	{"spl", "sp", "esp", "rsp"},	 {"bpl", "bp", "ebp", "rbp"},
	{"sil", "si", "esi", "rsi"},	 {"dil", "di", "edi", "rdi"},
	{"r8b", "r8w", "r8d", "r8"},	 {"r9b", "r9w", "r9d", "r9"},
	{"r10b", "r10w", "r10d", "r10"}, {"r11b", "r11w", "r11d", "r11"},
	{"r12b", "r12w", "r12d", "r12"}, {"r13b", "r13w", "r13d", "r13"},
	{"r14b", "r14w", "r14d", "r14"}, {"r15b", "r15w", "r15d", "r15"},
};

static bool is_name(const char *text, size_t length, const char *name)
{
	return strlen(name) == length && !memcmp(text, name, length);
}

bool ip_register_by_name(const char *name, size_t length, unsigned *ret_number, unsigned *ret_size)
{
	for (unsigned i = 0; i < 16; i++)
		for (unsigned j = 0; j < 4; j++)
			if (is_name(name, length, names[i][j])) {
				*ret_number = i;
				*ret_size = 1u << j;
				return true;
			}
	return false;
}

const char *ip_register_name(unsigned number, unsigned size)
{
	if (number >= 16)
		return NULL;
	switch (size) {
	case 1:
		return names[number][0];
	case 2:
		return names[number][1];
	case 4:
		return names[number][2];
	case 8:
		return names[number][3];
	}
	return NULL;
}

bool ip_register_is_pc(const char *name, size_t length)
{
	return is_name(name, length, "rip");
}
