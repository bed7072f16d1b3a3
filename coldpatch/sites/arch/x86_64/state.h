/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of registers and spilled values at one point of a function, for the constant
 * propagation in flow.c. A value is known if it is the same on every way to the point. Otherwise it
 * is unknown.
 */
#ifndef COLD_X86_64_STATE_H
#define COLD_X86_64_STATE_H

#include "coldpatch/sites/arch/x86_64/insn.h"

#include <stdint.h>

enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_CONST,	 /* the constant v */
	VALUE_SLOT,	 /* the contents of the offset-table slot at v */
	VALUE_STACK,	 /* the stack pointer at the point base, plus v */
	VALUE_ENTRY32,	 /* some 32-bit entry of the jump table at v */
	VALUE_TARGETS32, /* v (i386: base) plus some entry of the table at v */
	VALUE_TARGETS64, /* some 64-bit entry of the table at v */
};

struct value {
	uint8_t kind;
	/* VALUE_STACK: 0 is the function's entry; any other value names the instruction that
	 * aligned the stack. VALUE_TARGETS32 on i386: what is added to the entry */
	uint32_t base;
	uint64_t v;
};

struct spill {
	uint32_t base;
	int64_t offset;
	struct value value;
};

#define STATE_GPRS   16
#define STATE_REGS   32 /* with xmm0..15, where compilers spill to */
#define STATE_SPILLS 256

struct state {
	struct value reg[STATE_REGS];
	unsigned bits; /* of an address */
	int32_t depth; /* entries minus exits since the function began, or COLD_DEPTH_UNKNOWN */
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

/* Makes all values unknown. */
void state_clear(struct state *s, unsigned bits);
/* Keeps in into only what from knows as well. Returns true if that changed into. */
bool state_meet(struct state *into, const struct state *from);
/* Returns a malloc'ed copy of the used part of the state; NULL: out of memory. Free it with
 * free(). */
struct state *state_save(const struct state *s);
void state_load(struct state *s, const struct state *saved);

bool value_equal(struct value a, struct value b);

/* Applies one instruction to the state. This function decodes the operands. A call clobbers what
 * the ABI lets it clobber. */
void state_step(struct state *s, const ZydisDecoder *decoder, const struct cold_insn *insn,
		const struct cold_module *module);
/* Keeps only what is known after a call has returned or has thrown. The caller takes the call's
 * arguments off the stack. */
void state_after_call(struct state *s);
/* i386: the stack pointer becomes unknown, since some functions take an argument that was passed to
 * them off the stack (ret 4). */
void state_forget_stack(struct state *s);
bool state_knows_stack(const struct state *s);
/* Gives an unknown stack pointer a value in front of the instruction at address. offset: its
 * distance from where it was when the function began. If offset is NULL, the stack pointer gets a
 * name of its own, so that values that are pushed from here on can be followed. */
void state_name_stack(struct state *s, uint64_t address, const int64_t *offset);
/* Returns the first argument of the function that is about to be called, or, if jumped, jumped
 * to. */
struct value state_first_argument(const struct state *s, bool jumped);

/* Returns where an indirect jump goes: VALUE_TARGETS32, VALUE_TARGETS64, VALUE_CONST, or
 * unknown. */
struct value state_jump_target(const struct state *s, const ZydisDecoder *decoder,
			       const struct cold_insn *insn);

#endif
