/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies one instruction after another to registers and spills. See state.h.
 *
 * It is assumed that stores through pointers which are not stack addresses do not change spill
 * slots: the slots are the compiler's own, and no pointer leads to them.
 */
#include "coldpatch/sites/arch/x86_64/state.h"

#include "coldpatch/sites/sites.h"

#include <stdlib.h>
#include <string.h>

static const struct value unknown = {0};

bool value_equal(struct value a, struct value b)
{
	return a.kind == b.kind && a.base == b.base && a.v == b.v;
}

void state_clear(struct state *s, unsigned bits)
{
	s->bits = bits;
	memset(s->reg, 0, sizeof(s->reg));
	s->depth = COLD_DEPTH_UNKNOWN;
	s->nspills = 0;
}

static unsigned word(const struct state *s)
{
	return s->bits / 8;
}

/* Returns a value as a register holds it. */
static struct value fit(const struct state *s, struct value value)
{
	if (s->bits == 32 &&
	    (value.kind == VALUE_CONST || value.kind == VALUE_SLOT || value.kind == VALUE_ENTRY32))
		value.v = (uint32_t)value.v;
	else if (s->bits == 32 && value.kind == VALUE_STACK)
		value.v = (uint64_t)(int64_t)(int32_t)value.v;
	return value;
}

static struct spill *find_spill(const struct state *s, uint32_t base, int64_t offset)
{
	for (uint32_t i = 0; i < s->nspills; i++)
		if (s->spills[i].offset == offset && s->spills[i].base == base)
			return (struct spill *)&s->spills[i];
	return NULL;
}

bool state_meet(struct state *into, const struct state *from)
{
	bool changed = false;

	for (unsigned i = 0; i < STATE_REGS; i++) {
		if (into->reg[i].kind && !value_equal(into->reg[i], from->reg[i])) {
			into->reg[i] = unknown;
			changed = true;
		}
	}
	for (uint32_t i = 0; i < into->nspills;) {
		const struct spill *mine = &into->spills[i];
		const struct spill *other = find_spill(from, mine->base, mine->offset);

		if (other && value_equal(mine->value, other->value)) {
			i++;
			continue;
		}
		into->spills[i] = into->spills[--into->nspills];
		changed = true;
	}
	if (into->depth != COLD_DEPTH_UNKNOWN && into->depth != from->depth) {
		into->depth = COLD_DEPTH_UNKNOWN;
		changed = true;
	}
	return changed;
}

static size_t used(const struct state *s)
{
	return offsetof(struct state, spills) + s->nspills * sizeof(s->spills[0]);
}

struct state *state_save(const struct state *s)
{
	struct state *copy = malloc(used(s));

	if (copy)
		memcpy(copy, s, used(s));
	return copy;
}

void state_load(struct state *s, const struct state *saved)
{
	memcpy(s, saved, used(saved));
}

/* Forgets spills that overlap size bytes at a stack address. */
static void forget(struct state *s, struct value at, uint64_t size)
{
	for (uint32_t i = 0; i < s->nspills;) {
		int64_t offset = s->spills[i].offset, where = (int64_t)at.v;

		if (s->spills[i].base == at.base && offset < where + (int64_t)size &&
		    where < offset + (int64_t)word(s))
			s->spills[i] = s->spills[--s->nspills];
		else
			i++;
	}
}

static void store(struct state *s, struct value at, struct value value)
{
	forget(s, at, word(s));
	if (value.kind && s->nspills < STATE_SPILLS)
		s->spills[s->nspills++] =
			(struct spill){.base = at.base, .offset = (int64_t)at.v, .value = value};
}

static struct value load(const struct state *s, struct value at)
{
	const struct spill *spill = find_spill(s, at.base, (int64_t)at.v);

	return spill ? spill->value : unknown;
}

/* Returns the index in reg[] of the register that r is part of; -1: a register that is not
 * followed. *ret_width is 64 if r is the whole register. */
static int reg_index(const struct state *s, ZydisRegister r, unsigned *ret_width)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(r);
	ZydisRegister whole;

	*ret_width = 0;
	switch (class) {
	case ZYDIS_REGCLASS_GPR64:
		*ret_width = 64;
		return ZydisRegisterGetId(r);
	case ZYDIS_REGCLASS_GPR32:
		*ret_width = s->bits == 32 ? 64 : 32;
		return ZydisRegisterGetId(r);
	case ZYDIS_REGCLASS_GPR16:
	case ZYDIS_REGCLASS_GPR8:
		whole = ZydisRegisterGetLargestEnclosing(
			s->bits == 64 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
			r);
		return ZydisRegisterGetId(whole);
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		return ZydisRegisterGetId(r) < 16 ? STATE_GPRS + ZydisRegisterGetId(r) : -1;
	default:
		return -1;
	}
}

static struct value reg_value(const struct state *s, ZydisRegister r)
{
	unsigned width;
	int i = reg_index(s, r, &width);

	if (i < 0 || !s->reg[i].kind)
		return unknown;
	if (i >= STATE_GPRS || width == 64)
		return s->reg[i];
	if (width == 32 && s->reg[i].kind == VALUE_CONST)
		return (struct value){.kind = VALUE_CONST, .v = (uint32_t)s->reg[i].v};
	if (width == 32 && s->reg[i].kind == VALUE_ENTRY32)
		return s->reg[i];
	return unknown;
}

/* Returns the address of a memory operand: a constant, a stack address, or unknown. */
static struct value effective(const struct state *s, const struct cold_insn *insn,
			      const ZydisDecodedOperand *op)
{
	uint64_t disp = op->mem.disp.has_displacement ? (uint64_t)op->mem.disp.value : 0;
	struct value base;

	if (op->mem.segment == ZYDIS_REGISTER_FS || op->mem.segment == ZYDIS_REGISTER_GS)
		return unknown;
	if (op->mem.index != ZYDIS_REGISTER_NONE) {
		/* position-independent code of the large model: offset table + difference */
		struct value index = reg_value(s, op->mem.index);

		if (index.kind != VALUE_CONST)
			return unknown;
		disp += index.v * op->mem.scale;
	}
	if (op->mem.base == ZYDIS_REGISTER_NONE)
		return fit(s, (struct value){.kind = VALUE_CONST, .v = disp});
	if (op->mem.base == ZYDIS_REGISTER_RIP)
		return (struct value){.kind = VALUE_CONST, .v = insn->next + disp};
	base = reg_value(s, op->mem.base);
	if (base.kind != VALUE_CONST && base.kind != VALUE_STACK)
		return unknown;
	base.v += disp;
	return fit(s, base);
}

/* Whether the operand is an entry of a table: [table + i*scale], with a constant table. Then *ret
 * is the table's address. */
static bool table_at(const struct state *s, const ZydisDecodedOperand *op, unsigned scale,
		     uint64_t *ret)
{
	uint64_t disp = op->mem.disp.has_displacement ? (uint64_t)op->mem.disp.value : 0;
	struct value base, index;

	if (op->mem.index == ZYDIS_REGISTER_NONE)
		return false;
	base = reg_value(s, op->mem.base);
	index = reg_value(s, op->mem.index);
	if (op->mem.base == ZYDIS_REGISTER_NONE && op->mem.scale == scale && disp) {
		*ret = disp;
		return true;
	}
	if (base.kind == VALUE_CONST && (op->mem.scale == scale || op->mem.scale == 1)) {
		*ret = base.v + disp;
		return true;
	}
	if (index.kind == VALUE_CONST && op->mem.scale == 1) {
		*ret = index.v + disp;
		return true;
	}
	return false;
}

static bool table_of(const struct state *s, const ZydisDecodedOperand *op, unsigned scale,
		     uint64_t *ret)
{
	bool found = table_at(s, op, scale, ret);

	if (s->bits == 32)
		*ret = (uint32_t)*ret;
	return found;
}

static struct value read_memory(const struct state *s, const struct cold_insn *insn,
				const ZydisDecodedOperand *op, const struct cold_module *m)
{
	struct value at = effective(s, insn, op);
	uint64_t table = 0;

	if (op->size == s->bits && at.kind == VALUE_STACK)
		return load(s, at);
	if (op->size == s->bits && at.kind == VALUE_CONST) {
		const struct cold_section *section = cold_module_section(m, at.v, word(s));

		if (section && section->got)
			return (struct value){.kind = VALUE_SLOT, .v = at.v};
		return unknown;
	}
	if (s->bits == 64 && op->size == 64 && table_of(s, op, 8, &table))
		return (struct value){.kind = VALUE_TARGETS64, .v = table};
	if (op->size == 32 && table_of(s, op, 4, &table))
		return (struct value){.kind = VALUE_ENTRY32, .v = table};
	return unknown;
}

static struct value read_operand(const struct state *s, const struct cold_insn *insn,
				 const ZydisDecodedOperand *op, const struct cold_module *m)
{
	switch (op->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		return reg_value(s, op->reg.value);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return (struct value){.kind = VALUE_CONST, .v = op->imm.value.u};
	case ZYDIS_OPERAND_TYPE_MEMORY:
		return read_memory(s, insn, op, m);
	default:
		return unknown;
	}
}

static void write_operand(struct state *s, const struct cold_insn *insn,
			  const ZydisDecodedOperand *op, struct value value)
{
	struct value at;
	unsigned width;
	int i;

	value = fit(s, value);
	switch (op->type) {
	case ZYDIS_OPERAND_TYPE_REGISTER:
		i = reg_index(s, op->reg.value, &width);
		if (i < 0)
			return;
		if (i >= STATE_GPRS || width == 64 ||
		    (width == 32 && value.kind == VALUE_ENTRY32)) {
			s->reg[i] = value;
		} else if (width == 32 && value.kind == VALUE_CONST) {
			value.v = (uint32_t)value.v;
			s->reg[i] = value;
		} else {
			s->reg[i] = unknown;
		}
		return;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		if (op->mem.type != ZYDIS_MEMOP_TYPE_MEM)
			return;
		at = effective(s, insn, op);
		if (at.kind != VALUE_STACK)
			return;
		if (op->size == s->bits)
			store(s, at, value);
		else
			forget(s, at, op->size / 8);
		return;
	default:
		return;
	}
}

static void forget_written(struct state *s, const struct cold_insn *insn,
			   const ZydisDecodedOperand *ops)
{
	for (unsigned i = 0; i < insn->insn.operand_count; i++)
		if (ops[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			write_operand(s, insn, &ops[i], unknown);
}

static bool is_register(const struct state *s, const ZydisDecodedOperand *op, unsigned index)
{
	unsigned width;

	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       reg_index(s, op->reg.value, &width) == (int)index && width == 64;
}

static struct value add(const struct state *s, struct value a, struct value b, bool subtract)
{
	/* i386: a table holds addresses, or offsets from the offset table's address */
	if (s->bits == 32 && a.kind == VALUE_CONST && b.kind == VALUE_ENTRY32 && !subtract)
		return (struct value){.kind = VALUE_TARGETS32, .base = (uint32_t)a.v, .v = b.v};
	if (s->bits == 32 && a.kind == VALUE_ENTRY32 && b.kind == VALUE_CONST && !subtract)
		return (struct value){.kind = VALUE_TARGETS32, .base = (uint32_t)b.v, .v = a.v};
	if (a.kind == VALUE_ENTRY32 && b.kind == VALUE_CONST && !subtract && a.v == b.v)
		return (struct value){.kind = VALUE_TARGETS32, .v = a.v};
	if (b.kind == VALUE_ENTRY32 && a.kind == VALUE_CONST && !subtract && a.v == b.v)
		return (struct value){.kind = VALUE_TARGETS32, .v = a.v};
	if (b.kind != VALUE_CONST || (a.kind != VALUE_CONST && a.kind != VALUE_STACK))
		return unknown;
	a.v = subtract ? a.v - b.v : a.v + b.v;
	return a;
}

/* The stack pointer gets a new value (aligned, or lowered by an unknown amount). Offsets count from
 * here. */
static void rebase_stack(struct state *s, uint64_t address)
{
	uint32_t base = (uint32_t)address | 1;

	/* these come from an earlier pass through a loop */
	for (uint32_t i = 0; i < s->nspills;)
		if (s->spills[i].base == base)
			s->spills[i] = s->spills[--s->nspills];
		else
			i++;
	for (unsigned i = 0; i < STATE_GPRS; i++)
		if (s->reg[i].kind == VALUE_STACK && s->reg[i].base == base)
			s->reg[i] = unknown;
	s->reg[REG_RSP] = (struct value){.kind = VALUE_STACK, .base = base};
}

static void push(struct state *s, struct value value)
{
	if (s->reg[REG_RSP].kind != VALUE_STACK)
		return;
	s->reg[REG_RSP].v -= word(s);
	store(s, s->reg[REG_RSP], fit(s, value));
}

static struct value pop(struct state *s)
{
	struct value value = unknown;

	if (s->reg[REG_RSP].kind != VALUE_STACK)
		return unknown;
	value = load(s, s->reg[REG_RSP]);
	s->reg[REG_RSP].v += word(s);
	return value;
}

void state_after_call(struct state *s)
{
	static const uint8_t clobbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI,
					    8,	     9,	      10,      11};
	struct value sp = s->reg[REG_RSP];

	for (unsigned i = 0; i < sizeof(clobbered); i++)
		if (s->bits == 64 || clobbered[i] <= REG_RDX)
			s->reg[clobbered[i]] = unknown;
	for (unsigned i = STATE_GPRS; i < STATE_REGS; i++)
		s->reg[i] = unknown;
	/* the callee may use what lay below the stack pointer */
	for (uint32_t i = 0; i < s->nspills;) {
		if (sp.kind == VALUE_STACK && s->spills[i].base == sp.base &&
		    s->spills[i].offset < (int64_t)sp.v)
			s->spills[i] = s->spills[--s->nspills];
		else
			i++;
	}
}

void state_forget_stack(struct state *s)
{
	if (s->bits == 32)
		s->reg[REG_RSP] = unknown;
}

bool state_knows_stack(const struct state *s)
{
	return s->reg[REG_RSP].kind == VALUE_STACK;
}

void state_name_stack(struct state *s, uint64_t address, const int64_t *offset)
{
	if (offset)
		s->reg[REG_RSP] = (struct value){.kind = VALUE_STACK, .v = (uint64_t)*offset};
	else
		rebase_stack(s, address);
}

struct value state_first_argument(const struct state *s, bool jumped)
{
	struct value at = s->reg[REG_RSP];

	if (s->bits == 64)
		return s->reg[REG_RDI];
	if (at.kind != VALUE_STACK)
		return unknown;
	at.v += jumped ? word(s) : 0; /* above the return address */
	return load(s, at);
}

/*
 * Handles calls by which i386 code learns its own address: a call of __x86.get_pc_thunk.REG (mov
 * (%esp),%reg; ret), or a call of the next instruction, which pops the address. Returns true for
 * such a call.
 */
static bool call_for_address(struct state *s, const struct cold_insn *insn,
			     const struct cold_module *m)
{
	static const uint8_t endbr32[] = {0xf3, 0x0f, 0x1e, 0xfb};
	const struct value here = {.kind = VALUE_CONST, .v = insn->next};
	const uint8_t *code;
	uint64_t target;

	if (s->bits != 32 || !cold_insn_target(insn, &target))
		return false;
	if (target == insn->next) {
		push(s, here);
		return true;
	}
	code = cold_module_bytes(m, target, sizeof(endbr32));
	if (code && !memcmp(code, endbr32, sizeof(endbr32)))
		code = cold_module_bytes(m, target + sizeof(endbr32), 4);
	if (!code || code[0] != 0x8b || (code[1] & 0xc7) != 0x04 || code[2] != 0x24 ||
	    code[3] != 0xc3)
		return false;
	s->reg[code[1] >> 3] = here;
	return true;
}

static bool same_register(const ZydisDecodedOperand *a, const ZydisDecodedOperand *b)
{
	return a->type == ZYDIS_OPERAND_TYPE_REGISTER && b->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       a->reg.value == b->reg.value;
}

void state_step(struct state *s, const ZydisDecoder *decoder, const struct cold_insn *insn,
		const struct cold_module *m)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	struct value value;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder, &insn->context, &insn->insn, ops,
						     insn->insn.operand_count))) {
		state_clear(s, s->bits);
		return;
	}
	switch (insn->insn.mnemonic) {
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_MOVQ:
		value = read_operand(s, insn, &ops[1], m);
		write_operand(s, insn, &ops[0], value);
		return;
	case ZYDIS_MNEMONIC_MOVSXD:
		value = read_operand(s, insn, &ops[1], m);
		if (value.kind == VALUE_CONST)
			value.v = (uint64_t)(int64_t)(int32_t)value.v;
		write_operand(s, insn, &ops[0], value);
		return;
	case ZYDIS_MNEMONIC_CDQE:
		if (s->reg[REG_RAX].kind == VALUE_CONST)
			s->reg[REG_RAX].v = (uint64_t)(int64_t)(int32_t)s->reg[REG_RAX].v;
		else if (s->reg[REG_RAX].kind != VALUE_ENTRY32)
			s->reg[REG_RAX] = unknown;
		return;
	case ZYDIS_MNEMONIC_LEA:
		value = effective(s, insn, &ops[1]);
		write_operand(s, insn, &ops[0], value);
		return;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		value = add(s, read_operand(s, insn, &ops[0], m), read_operand(s, insn, &ops[1], m),
			    insn->insn.mnemonic == ZYDIS_MNEMONIC_SUB);
		forget_written(s, insn, ops);
		if (is_register(s, &ops[0], REG_RSP) && value.kind != VALUE_STACK)
			rebase_stack(s, insn->address);
		else if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER)
			write_operand(s, insn, &ops[0], value);
		return;
	case ZYDIS_MNEMONIC_AND:
		forget_written(s, insn, ops);
		if (is_register(s, &ops[0], REG_RSP))
			rebase_stack(s, insn->address);
		return;
	case ZYDIS_MNEMONIC_XOR:
		forget_written(s, insn, ops);
		if (same_register(&ops[0], &ops[1]))
			write_operand(s, insn, &ops[0], (struct value){.kind = VALUE_CONST});
		return;
	case ZYDIS_MNEMONIC_PUSH:
		push(s, read_operand(s, insn, &ops[0], m));
		return;
	case ZYDIS_MNEMONIC_POP:
		write_operand(s, insn, &ops[0], pop(s));
		return;
	case ZYDIS_MNEMONIC_LEAVE:
		s->reg[REG_RSP] = s->reg[REG_RBP];
		s->reg[REG_RBP] = pop(s);
		return;
	case ZYDIS_MNEMONIC_CALL:
		if (call_for_address(s, insn, m))
			return;
		state_after_call(s);
		state_forget_stack(s);
		return;
	default:
		forget_written(s, insn, ops);
		return;
	}
}

struct value state_jump_target(const struct state *s, const ZydisDecoder *decoder,
			       const struct cold_insn *insn)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t table = 0;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeOperands(decoder, &insn->context, &insn->insn, ops,
						     insn->insn.operand_count)))
		return unknown;
	if (ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
		struct value target = reg_value(s, ops[0].reg.value);

		if (s->bits == 32 && target.kind == VALUE_ENTRY32) {
			target.kind = VALUE_TARGETS32;
			target.base = 0;
		}
		return target;
	}
	if (ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[0].mem.index != ZYDIS_REGISTER_NONE &&
	    table_of(s, &ops[0], word(s), &table))
		return (struct value){.kind = VALUE_TARGETS64, .v = table};
	return unknown;
}
