/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding single instructions. See insn.h.
 */
#include "coldpatch/arch/x86_64/insn.h"

void cold_insn_init(ZydisDecoder *decoder)
{
	ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
}

bool cold_insn_at(const ZydisDecoder *decoder, const struct cold_section *section, uint64_t address,
		  uint64_t end, struct cold_insn *ret)
{
	ret->address = address;
	ret->bytes = section->data + (address - section->address);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, &ret->context, ret->bytes, end - address,
							&ret->insn)))
		return false;
	ret->next = address + ret->insn.length;
	return true;
}

bool cold_insn_target(const struct cold_insn *insn, uint64_t *ret)
{
	for (unsigned i = 0; i < 2; i++) {
		if (insn->insn.raw.imm[i].size && insn->insn.raw.imm[i].is_relative) {
			*ret = insn->next + (uint64_t)insn->insn.raw.imm[i].value.s;
			return true;
		}
	}
	return false;
}

bool cold_insn_memory(const struct cold_insn *insn, uint64_t *ret)
{
	const ZydisDecodedInstruction *i = &insn->insn;

	if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod != 0 || i->raw.disp.size != 32)
		return false;
	if (i->raw.modrm.rm == 5) {
		*ret = insn->next + (uint64_t)i->raw.disp.value;
		return true;
	}
	if (i->raw.modrm.rm == 4 && i->raw.sib.base == 5 && i->raw.sib.index == 4) {
		*ret = (uint64_t)i->raw.disp.value;
		return true;
	}
	return false;
}

bool cold_insn_table(const struct cold_insn *insn, uint64_t *ret)
{
	const ZydisDecodedInstruction *i = &insn->insn;

	if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod != 0 || i->raw.disp.size != 32 ||
	    i->raw.modrm.rm != 4 || i->raw.sib.base != 5 || i->raw.sib.index == 4)
		return false;
	*ret = (uint64_t)i->raw.disp.value;
	return true;
}

bool cold_insn_is_jump(const struct cold_insn *insn)
{
	return insn->insn.meta.category == ZYDIS_CATEGORY_COND_BR || cold_insn_is_unconditional(insn);
}

bool cold_insn_is_unconditional(const struct cold_insn *insn)
{
	return insn->insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}
