/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes one x86 instruction at a time, with Zydis. The sweep and the flow share it. i386 code is
 * decoded in a mode of its own and is otherwise treated the same.
 */
#ifndef COLD_X86_64_INSN_H
#define COLD_X86_64_INSN_H

#include "coldpatch/elf/module.h"
#include "coldpatch/sites/hooks.h"

#include <Zydis/Zydis.h>

struct cold_insn {
	ZydisDecodedInstruction insn;
	ZydisDecoderContext context;
	uint64_t address, next;
	unsigned bits; /* of an address */
	const uint8_t *bytes;
};

void cold_insn_init(ZydisDecoder *decoder, unsigned bits);

/* Decodes the instruction at address, which lies in section. Returns false if there is no whole
 * instruction before end. */
bool cold_insn_at(const ZydisDecoder *decoder, const struct cold_section *section, uint64_t address,
		  uint64_t end, struct cold_insn *ret);

/* Gives the target of a direct jump or call (any length). Returns false for anything else. */
bool cold_insn_target(const struct cold_insn *insn, uint64_t *ret);

/* Gives the address of the memory operand if it does not depend on a register: relative to rip, or
 * absolute. */
bool cold_insn_memory(const struct cold_insn *insn, uint64_t *ret);

/* For an operand relative to a register, with a displacement of full size (as linkers fill it in):
 * gives the address that the operand has if the register holds base. */
bool cold_insn_based(const struct cold_insn *insn, uint64_t base, uint64_t *ret, unsigned *ret_reg);

/* Gives the constant part of a memory operand that has an index and no base: a table at a fixed
 * address. */
bool cold_insn_table(const struct cold_insn *insn, uint64_t *ret);

/* jmp, conditional jumps, loop: any instruction that goes elsewhere in the function without coming
 * back. */
bool cold_insn_is_jump(const struct cold_insn *insn);
bool cold_insn_is_unconditional(const struct cold_insn *insn);

/* Whether the code at address sets all arithmetic flags, or leaves the function, before it reads
 * any. */
bool cold_x86_64_flags_dead(const struct cold_module *module, uint64_t address);

/* Constant propagation, in flow.c. */
struct cold_hooks;
struct cold_sites;
int cold_x86_64_flow(struct cold_module *module, const struct cold_hooks *hooks,
		     struct cold_sites *sites);

/* Finds sites, in decode.c. */
int cold_x86_64_sweep(struct cold_module *module, const struct cold_hooks *hooks, bool exact,
		      struct cold_sites *sites);
/* Reports that the reference at address cannot become a NOP. Returns -1. */
int cold_x86_64_refuse(const struct cold_module *module, uint64_t address, enum cold_hook hook,
		       const char *why);

#endif
