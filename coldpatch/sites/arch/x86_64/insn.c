/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes single instructions. See insn.h.
 */
#include "coldpatch/sites/arch/x86_64/insn.h"

void cold_insn_init(ZydisDecoder *decoder, unsigned bits)
{
	if (bits == 64)
		ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	else
		ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
}

bool cold_insn_at(const ZydisDecoder *decoder, const struct cold_section *section, uint64_t address,
		  uint64_t end, struct cold_insn *ret)
{
	ret->address = address;
	ret->bytes = section->data + (address - section->address);
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, &ret->context, ret->bytes,
							end - address, &ret->insn)))
		return false;
	ret->next = address + ret->insn.length;
	ret->bits = decoder->machine_mode == ZYDIS_MACHINE_MODE_LONG_64 ? 64 : 32;
	return true;
}

static uint64_t wrap(const struct cold_insn *insn, uint64_t address)
{
	return insn->bits == 64 ? address : (uint32_t)address;
}

bool cold_insn_target(const struct cold_insn *insn, uint64_t *ret)
{
	for (unsigned i = 0; i < 2; i++) {
		if (insn->insn.raw.imm[i].size && insn->insn.raw.imm[i].is_relative) {
			*ret = wrap(insn, insn->next + (uint64_t)insn->insn.raw.imm[i].value.s);
			return true;
		}
	}
	return false;
}

bool cold_insn_memory(const struct cold_insn *insn, uint64_t *ret)
{
	const ZydisDecodedInstruction *i = &insn->insn;

	if (i->raw.disp.size != 32)
		return false;
	if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM)) {
		*ret = wrap(insn, (uint64_t)i->raw.disp.value); /* mov from or to eax */
		return insn->bits == 32;
	}
	if (i->raw.modrm.mod != 0)
		return false;
	if (i->raw.modrm.rm == 5) {
		*ret = wrap(insn,
			    (insn->bits == 64 ? insn->next : 0) + (uint64_t)i->raw.disp.value);
		return true;
	}
	if (i->raw.modrm.rm == 4 && i->raw.sib.base == 5 && i->raw.sib.index == 4) {
		*ret = wrap(insn, (uint64_t)i->raw.disp.value);
		return true;
	}
	return false;
}

bool cold_insn_based(const struct cold_insn *insn, uint64_t base, uint64_t *ret, unsigned *ret_reg)
{
	const ZydisDecodedInstruction *i = &insn->insn;

	if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod != 2 ||
	    i->raw.disp.size != 32 || i->raw.modrm.rm == 4)
		return false;
	*ret = wrap(insn, base + (uint64_t)i->raw.disp.value);
	*ret_reg = i->raw.modrm.rm;
	return true;
}

bool cold_insn_table(const struct cold_insn *insn, uint64_t *ret)
{
	const ZydisDecodedInstruction *i = &insn->insn;

	if (!(i->attributes & ZYDIS_ATTRIB_HAS_MODRM) || i->raw.modrm.mod != 0 ||
	    i->raw.disp.size != 32 || i->raw.modrm.rm != 4 || i->raw.sib.base != 5 ||
	    i->raw.sib.index == 4)
		return false;
	*ret = wrap(insn, (uint64_t)i->raw.disp.value);
	return true;
}

bool cold_insn_is_jump(const struct cold_insn *insn)
{
	return insn->insn.meta.category == ZYDIS_CATEGORY_COND_BR ||
	       cold_insn_is_unconditional(insn);
}

bool cold_insn_is_unconditional(const struct cold_insn *insn)
{
	return insn->insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

#define FLAGS                                                                                      \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF |               \
	 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_OF)
#define FAR 64 /* instructions */

/* Follows one way only. So a conditional jump ends it: such a jump reads flags. In the ABI no flags
 * are passed to a function or back. */
bool cold_x86_64_flags_dead(const struct cold_module *m, uint64_t address)
{
	const struct cold_section *section = cold_module_section(m, address, 1);
	ZydisDecoder decoder;

	cold_insn_init(&decoder, m->bits);
	for (unsigned i = 0; i < FAR && section; i++) {
		uint32_t range = cold_module_range(m, address);
		const ZydisAccessedFlags *flags;
		struct cold_insn insn;
		uint64_t target;

		if (!cold_insn_at(&decoder, section, address, section->address + section->size,
				  &insn))
			return false;
		flags = insn.insn.cpu_flags;
		if (flags && (flags->tested & FLAGS))
			return false;
		switch (insn.insn.meta.category) {
		case ZYDIS_CATEGORY_CALL:
		case ZYDIS_CATEGORY_RET:
			return true;
		case ZYDIS_CATEGORY_UNCOND_BR:
			if (!cold_insn_target(&insn, &target))
				return false;
			section = cold_module_section(m, target, 1);
			if (section && (section->plt || cold_module_range(m, target) != range))
				return cold_module_symbol(m, target) || section->plt;
			address = target;
			continue;
		default:
			break;
		}
		if (cold_insn_is_jump(&insn) || insn.insn.mnemonic == ZYDIS_MNEMONIC_PUSHFQ)
			return false;
		/* these always set all flags; a shift, for example, sets none if its count is 0 */
		switch (insn.insn.mnemonic) {
		case ZYDIS_MNEMONIC_ADD:
		case ZYDIS_MNEMONIC_AND:
		case ZYDIS_MNEMONIC_CMP:
		case ZYDIS_MNEMONIC_NEG:
		case ZYDIS_MNEMONIC_OR:
		case ZYDIS_MNEMONIC_SUB:
		case ZYDIS_MNEMONIC_TEST:
		case ZYDIS_MNEMONIC_XOR:
			return true;
		default:
			address = insn.next;
		}
	}
	return false;
}
