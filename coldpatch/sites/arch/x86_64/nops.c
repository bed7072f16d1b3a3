// SPDX-License-Identifier: Apache-2.0
/*
 * NOPs in the code that iprobe-cc did not make. See nops.h.
 */
#include "coldpatch/sites/arch/x86_64/nops.h"

#include "coldpatch/sites/arch/x86_64/insn.h"
#include "common/elf/probe_list.h"

#include <string.h>

#define SITE	  5
#define SLED	  11
#define SLED_NOPS 9 /* NOPs behind the two-byte jump; behind a return there is one byte more */

size_t cold_x86_64_nops(const uint8_t *p, size_t size, size_t want)
{
	ZydisDecoder decoder;
	size_t at = 0;

	cold_insn_init(&decoder, 64);
	while (at < want && at < size) {
		ZydisDecodedInstruction insn;
		ZydisDecoderContext context;

		/* endbr64 decodes as itself; `xchg %ax,%ax` and similar NOPs decode as NOP */
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, &context, p + at,
								size - at, &insn)) ||
		    insn.mnemonic != ZYDIS_MNEMONIC_NOP)
			return 0;
		at += insn.length;
	}
	return at >= want ? at : 0;
}

bool cold_x86_64_entered(const struct cold_module *m, uint64_t start, uint64_t end)
{
	uint32_t index = cold_module_range(m, start);
	const struct cold_section *section;
	ZydisDecoder decoder;

	if (index == COLD_NONE)
		return false;
	section = cold_module_section(m, m->ranges[index].start, 1);
	if (!section)
		return true;
	cold_insn_init(&decoder, 64);
	for (uint64_t at = m->ranges[index].start; at < m->ranges[index].end;) {
		struct cold_insn insn;
		uint64_t target;

		if (!cold_insn_at(&decoder, section, at, m->ranges[index].end, &insn)) {
			at++;
			continue;
		}
		if (cold_insn_target(&insn, &target) && target > start && target < end)
			return true;
		at = insn.next;
	}
	return false;
}

/* The longest NOPs that every processor of this architecture decodes fast. */
void cold_x86_64_fill(uint8_t *p, size_t size)
{
	static const uint8_t nops[9][9] = {
		{0x90},
		{0x66, 0x90},
		{0x0f, 0x1f, 0x00},
		{0x0f, 0x1f, 0x40, 0x00},
		{0x0f, 0x1f, 0x44, 0x00, 0x00},
		{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
		{0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
		{0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
		{0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
	};

	while (size) {
		size_t n = size < 9 ? size : 9;

		memcpy(p, nops[n - 1], n);
		p += n;
		size -= n;
	}
}

size_t cold_x86_64_endbr(const uint8_t *p, size_t size)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	return size >= sizeof(endbr64) && !memcmp(p, endbr64, sizeof(endbr64)) ? sizeof(endbr64)
									       : 0;
}

size_t cold_x86_64_call(const uint8_t *p, size_t size, uint64_t address, uint64_t *ret_target)
{
	int32_t rel;

	if (size < SITE || p[0] != 0xe8)
		return 0;
	memcpy(&rel, p + 1, sizeof(rel));
	*ret_target = address + SITE + (uint64_t)(int64_t)rel;
	return SITE;
}

bool cold_x86_64_returns(const uint8_t *p, size_t size)
{
	return size && (p[0] == 0xc3 || p[0] == 0xc2 ||
			(size > 1 && (p[0] == 0xf2 || p[0] == 0xf3) && p[1] == 0xc3));
}

/*
 * The sleds, and what they become:
 *
 *   entry, tail exit   eb 09, NOPs of 9 bytes   ->   NOP of 5, NOP of 6
 *   exit               c3, NOPs of 10 bytes     ->   c3 and a NOP, int3 up to the end
 *
 * Nothing behind the c3 is ever reached.
 */
bool cold_x86_64_sled(const uint8_t *p, size_t size, bool exit, struct cold_site *ret)
{
	if (size < SLED)
		return false;
	ret->length = SITE;
	ret->after_length = SLED - SITE;
	if (p[0] == 0xeb && p[1] == SLED_NOPS &&
	    cold_x86_64_nops(p + 2, SLED_NOPS, SLED_NOPS) == SLED_NOPS) {
		ret->kind = exit ? IP_PROBE_TAIL_EXIT : IP_PROBE_ENTRY;
		ret->regs = exit ? IP_REGS_ALL : IP_REGS_ENTRY;
		ret->after = COLD_AFTER_NOPS;
		return true;
	}
	if (exit && p[0] == 0xc3 &&
	    cold_x86_64_nops(p + 1, SLED_NOPS + 1, SLED_NOPS + 1) == SLED_NOPS + 1) {
		ret->kind = IP_PROBE_EXIT;
		ret->regs = IP_REGS_RETURN;
		ret->form = IP_FORM_RETURN;
		ret->after = COLD_AFTER_RETURN;
		return true;
	}
	return false;
}

void cold_x86_64_after(const struct cold_site *site, uint8_t *ret)
{
	if (site->after == COLD_AFTER_RETURN)
		memset(ret, 0xcc, site->after_length);
	else
		cold_x86_64_fill(ret, site->after_length);
}
