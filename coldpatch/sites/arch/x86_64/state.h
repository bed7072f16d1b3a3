/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of registers and spilled values at one point of a function, for
 * the constant propagation in flow.c. A value is either known to be the same on
 * every way to the point, or unknown.
 */
#ifndef COLD_X86_64_STATE_H
#define COLD_X86_64_STATE_H

#include "coldpatch/sites/arch/x86_64/insn.h"

#include <stdint.h>

enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_CONST,	 /* v */
	VALUE_SLOT,	 /* what the offset-table slot at v holds */
	VALUE_STACK,	 /* stack pointer at point base, plus v */
	VALUE_ENTRY32,	 /* some 32-bit entry of the jump table at v */
	VALUE_TARGETS32, /* v (i386: base) plus some entry of the table at v */
	VALUE_TARGETS64, /* some 64-bit entry of the table at v */
};

struct value {
	uint8_t kind;
	/* VALUE_STACK: 0 is the function's entry, else the instruction that aligned the stack.
	 * VALUE_TARGETS32, i386: what is added to the entry */
	uint32_t base;
	uint64_t v;
};

struct spill {
	uint32_t base;
	int64_t offset;
	struct value value;
};

#define STATE_GPRS   16
#define STATE_REGS   32 /* and xmm0..15, where compilers spill to */
#define STATE_SPILLS 256

struct state {
	struct value reg[STATE_REGS];
	unsigned bits; /* of an address */
	int32_t depth; /* COLD_DEPTH_UNKNOWN, or entries minus exits since the function began */
	uint32_t nspills;
	struct spill spills[STATE_SPILLS];
};

enum {
	REG_RAX = 0,
	REG_RCX = 1,
	REG_RDX = 2,
	REG_RSP = 4,
	REG_RBP = 5,
	REG_RSI = 6,
	REG_RDI = 7,
};

/* Nothing known. */
void state_clear(struct state *s, unsigned bits);
/* Keeps in into what from knows as well; true where that changed into. */
bool state_meet(struct state *into, const struct state *from);
/* A malloc'ed copy of no more than what is used; NULL: out of memory. Free with free(). */
struct state *state_save(const struct state *s);
void state_load(struct state *s, const struct state *saved);

bool value_equal(struct value a, struct value b);

/* What one instruction does to the state. Operands are decoded here. Calls clobber what the ABI
 * lets them. */
void state_step(struct state *s, const ZydisDecoder *decoder, const struct cold_insn *insn,
		const struct cold_module *module);
/* What is left of the state when a call has returned, or has thrown, whose arguments the caller
 * takes off the stack. */
void state_after_call(struct state *s);
/* i386: the stack pointer is not known, since some functions take an argument off it that they were
 * passed (ret 4). */
void state_forget_stack(struct state *s);
bool state_knows_stack(const struct state *s);
/* Tells an unknown stack pointer, in front of the instruction at address: as an offset from
 * where it was when the function began, or NULL: then it gets a name of its own, so that what is
 * pushed from here on can be followed. */
void state_name_stack(struct state *s, uint64_t address, const int64_t *offset);
/* The first argument of the function that is about to be called, or, jumped, jumped to. */
struct value state_first_argument(const struct state *s, bool jumped);

/* Where an indirect jump goes: VALUE_TARGETS32, VALUE_TARGETS64, VALUE_CONST, or unknown. */
struct value state_jump_target(const struct state *s, const ZydisDecoder *decoder,
			       const struct cold_insn *insn);

#endif
