// SPDX-License-Identifier: Apache-2.0
/*
 * Sites and stubs of i386, byte by byte and as a decoder in 32-bit mode sees them: also half-way
 * through a write over a page boundary each must be one instruction of the site's length, or a jump
 * to its end.
 */
#include <Zydis/Zydis.h>
#include <elf.h>
#include <stdio.h>

#include "common/arch/arch.h"
#include "common/elf/elf_class.h"
#include "common/elf/probe_list.h"
#include "test/unit/test.h"

static const struct ip_arch *const arch = &ip_arch_i386;
static const unsigned forms[] = {IP_FORM_CALL, IP_FORM_RETURN};

static void test_bytes(void **state)
{
	static const uint8_t idle[2][2][6] = {
		{{0x0f, 0x1f, 0x44, 0x00, 0x00}, {0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
		{{0xc3, 0x0f, 0x1f, 0x40, 0x00}, {0xc3, 0x0f, 0x1f, 0x44, 0x00, 0x00}},
	};
	static const uint8_t live[2][2][6] = {
		{{0xe8, 0xfb, 0x0f, 0x00, 0x00}, {0x67, 0xe8, 0xfa, 0x0f, 0x00, 0x00}},
		{{0xe9, 0xfb, 0x0f, 0x00, 0x00}, {0xe9, 0xfb, 0x0f, 0x00, 0x00, 0x90}},
	};

	(void)state;
	assert_ptr_equal(ip_arch_for_machine(EM_386), arch);
	assert_int_equal(arch->bits, 32);
	for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
		for (unsigned length = 5; length <= 6; length++) {
			uint8_t bytes[IP_SITE_MAX];

			assert_int_equal(arch->idle(forms[k], length, 0, bytes), 0);
			assert_memory_equal(bytes, idle[k][length - 5], length);
			assert_int_equal(arch->live(forms[k], length, 0x400000, 0x401000, bytes),
					 0);
			assert_memory_equal(bytes, live[k][length - 5], length);
		}
	}
}

static void test_everything_is_within_reach(void **state)
{
	static const uint64_t addresses[] = {0,		 0x1000,     0x08048000, 0x7fffffff,
					     0x80000000, 0xf7fff000, 0xfffffff0};

	(void)state;
	for (size_t i = 0; i < N_ELEMENTS(addresses); i++)
		for (size_t j = 0; j < N_ELEMENTS(addresses); j++)
			for (unsigned length = 5; length <= 6; length++)
				for (size_t k = 0; k < N_ELEMENTS(forms); k++) {
					uint8_t bytes[IP_SITE_MAX];
					uint64_t target;

					assert_int_equal(arch->live(forms[k], length, addresses[i],
								    addresses[j], bytes),
							 0);
					assert_int_equal(arch->live_target(forms[k], length,
									   addresses[i], bytes,
									   &target),
							 1);
					assert_int_equal(target, addresses[j]);
					assert_int_equal(arch->idle(forms[k], length, 0, bytes), 0);
					assert_int_equal(arch->live_target(forms[k], length,
									   addresses[i], bytes,
									   &target),
							 0);
				}
}

static void test_stub(void **state)
{
	static const uint8_t want[16] = {0xb8, 0x45, 0x23, 0x01, 0x00, 0xe9, 0xf6, 0xef,
					 0xff, 0x0f, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
	uint8_t bytes[16];

	(void)state;
	assert_int_equal(arch->stub_size, sizeof(bytes));
	assert_int_equal(arch->stub(IP_REGS_CALL, 0xf7001000, 0x07000000, 0, 0x12345, bytes), 0);
	assert_memory_equal(bytes, want, sizeof(bytes));
	/* eax carries the number: no stub where registers are live */
	for (unsigned regs = IP_REGS_ENTRY; regs <= IP_REGS_ALL; regs++)
		assert_int_equal(arch->stub(regs, 0xf7001000, 0x07000000, 0, 1, bytes), -1);
}

static void test_refused(void **state)
{
	uint8_t bytes[32];
	uint64_t target;

	(void)state;
	for (unsigned length = 5; length <= 6; length++) {
		assert_int_equal(arch->idle(IP_FORM_JUMP, length, 0, bytes), -1);
		assert_int_equal(arch->live(IP_FORM_JUMP, length, 0, 0, bytes), -1);
		assert_int_equal(arch->transit(IP_FORM_JUMP, IP_REGS_CALL, length, 2, bytes), 0);
		memset(bytes, 0xe9, sizeof(bytes));
		assert_int_equal(arch->live_target(IP_FORM_JUMP, length, 0, bytes, &target), 0);
	}
	assert_int_equal(arch->idle(IP_FORM_CALL, 4, 0, bytes), -1);
	assert_int_equal(arch->idle(IP_FORM_CALL, 7, 0, bytes), -1);
	assert_int_equal(arch->jump_stub(0, 0, 0, 1, 0, bytes), -1);
}

/* What executing these bytes of a site does. */
enum effect { PASSES, RETURNS, CALLS, JUMPS };

static enum effect effect_of(const uint8_t *bytes, unsigned length, const char *what)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction insn;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, length, &insn)))
		fail_msg("%s: no instruction", what);
	switch (insn.meta.category) {
	case ZYDIS_CATEGORY_RET:
		return RETURNS;
	case ZYDIS_CATEGORY_UNCOND_BR:
		if (insn.raw.imm[0].size == 8) { /* over the rest of the site */
			assert_int_equal(insn.length + insn.raw.imm[0].value.s, length);
			return PASSES;
		}
		return JUMPS;
	case ZYDIS_CATEGORY_CALL:
		/* nothing of the site lies behind it, where its return address is */
		if (insn.length != length)
			fail_msg("%s: a call of %u bytes in a site of %u", what, insn.length,
				 length);
		return CALLS;
	default:
		if (insn.length != length)
			fail_msg("%s: %u bytes of %u", what, insn.length, length);
		assert_true(insn.mnemonic == ZYDIS_MNEMONIC_NOP ||
			    insn.mnemonic == ZYDIS_MNEMONIC_TEST);
		return PASSES;
	}
}

static void test_every_form_is_one_instruction(void **state)
{
	(void)state;
	for (size_t k = 0; k < N_ELEMENTS(forms); k++)
		for (unsigned length = 5; length <= 6; length++)
			for (unsigned split = 1; split < length; split++)
				for (unsigned to_live = 0; to_live < 2; to_live++) {
					uint8_t idle[IP_SITE_MAX] = {0}, live[IP_SITE_MAX] = {0},
						now[IP_SITE_MAX];
					uint8_t transit[IP_SITE_MAX];
					const uint8_t *from = to_live ? idle : live,
						      *to = to_live ? live : idle;
					enum effect done = forms[k] == IP_FORM_CALL ? CALLS : JUMPS;
					enum effect rest = forms[k] == IP_FORM_CALL ? PASSES
										    : RETURNS,
						    seen;
					char what[64];
					unsigned n;

					snprintf(what, sizeof(what), "form %u, length %u, split %u",
						 forms[k], length, split);
					arch->idle(forms[k], length, 0, idle);
					arch->live(forms[k], length, 0x08049000 - split, 0xf7123456,
						   live);
					n = arch->transit(forms[k], IP_REGS_CALL, length, split,
							  transit);
					assert_true(n > 0 && n <= split);
					assert_int_equal(effect_of(from, length, what),
							 to_live ? rest : done);
					memcpy(now, from, length);
					memcpy(now, transit, n); /* step 1 */
					seen = effect_of(now, length, what);
					assert_true(seen == rest || seen == done);
					/* step 2 */
					memcpy(now + split, to + split, length - split);
					seen = effect_of(now, length, what);
					assert_true(seen == rest || seen == done);
					memcpy(now, to, split); /* step 3 */
					assert_memory_equal(now, to, length);
					assert_int_equal(effect_of(now, length, what),
							 to_live ? done : rest);
				}
}

static void test_headers_of_32_bits(void **state)
{
	Elf32_Ehdr e = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32},
			.e_type = 2,
			.e_machine = 3,
			.e_version = 1,
			.e_entry = 0xf0000001,
			.e_phoff = 52,
			.e_shoff = 0x80000002,
			.e_flags = 4,
			.e_ehsize = 52,
			.e_phentsize = 32,
			.e_phnum = 9,
			.e_shentsize = 40,
			.e_shnum = 30,
			.e_shstrndx = 29};
	Elf32_Shdr s = {1, 2, 3, 0xf0000004, 5, 6, 7, 8, 9, 10};
	Elf32_Phdr p = {1, 2, 0xf0000003, 4, 5, 6, 7, 8};
	uint8_t bytes[sizeof(Elf64_Ehdr)];
	Elf64_Ehdr ehdr;
	Elf64_Shdr shdr;
	Elf64_Phdr phdr;

	(void)state;
	ip_elf_ehdr_decode(&e, &ehdr);
	assert_int_equal(ehdr.e_entry, 0xf0000001);
	assert_int_equal(ehdr.e_shoff, 0x80000002);
	assert_int_equal(ehdr.e_shstrndx, 29);
	assert_int_equal(ip_elf_ehdr_encode(&ehdr, bytes), sizeof(e));
	assert_memory_equal(bytes, &e, sizeof(e));
	ip_elf_shdr_decode(ELFCLASS32, &s, &shdr);
	assert_int_equal(shdr.sh_addr, 0xf0000004);
	assert_int_equal(ip_elf_shdr_encode(ELFCLASS32, &shdr, bytes), sizeof(s));
	assert_memory_equal(bytes, &s, sizeof(s));
	ip_elf_phdr_decode(ELFCLASS32, &p, &phdr);
	assert_int_equal(phdr.p_vaddr, 0xf0000003);
	assert_int_equal(phdr.p_flags, 7); /* stands elsewhere than in 64 bits */
	assert_int_equal(phdr.p_align, 8);
	assert_int_equal(ip_elf_ehdr_size(ELFCLASS32), 52);
	assert_int_equal(ip_elf_phdr_size(ELFCLASS32), 32);
	assert_int_equal(ip_elf_shdr_size(ELFCLASS32), 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_everything_is_within_reach),
		cmocka_unit_test(test_stub),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_every_form_is_one_instruction),
		cmocka_unit_test(test_headers_of_32_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
