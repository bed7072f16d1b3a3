/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds sites in x86-64 and i386 code.
 *
 *  1. Every executable section is decoded range by range (a range is a function, or a gap between
 *     functions). Each instruction that refers to a hook must be a call or tail jump of a known
 *     form, or the module is refused.
 *  2. Then every byte is looked at as if a reference to a hook ended there. A reference that step 1
 *     did not see as part of an instruction counts as a coincidence only if the decoding around it
 *     is right from one end of the function to the other.
 *
 * If the linker kept relocations (-q), they have named every reference exactly. Then none of this
 * decides anything.
 */
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/arch/x86_64/insn.h"
#include "coldpatch/sites/arch/x86_64/nops.h"
#include "common/array.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

static bool reloc_is_slot(uint32_t type)
{
	return type == R_X86_64_GLOB_DAT || type == R_X86_64_JUMP_SLOT;
}

static bool reloc_is_relative(uint32_t type)
{
	return type == R_X86_64_RELATIVE;
}

static bool reloc_is_resolved(uint32_t type)
{
	return type == R_X86_64_IRELATIVE;
}

static int32_t rel32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The stub: [endbr64] [mov $number,%r11d] [bnd] jmp *slot(%rip) */
static size_t stub(const struct cold_module *m, const uint8_t *p, size_t size, uint64_t address,
		   uint64_t *ret_slot)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = 0;

	(void)m;
	if (size >= sizeof(endbr64) && !memcmp(p, endbr64, sizeof(endbr64)))
		at = sizeof(endbr64);
	if (size - at >= 6 && p[at] == 0x41 && p[at + 1] == 0xbb)
		at += 6; /* mold */
	if (at < size && p[at] == 0xf2)
		at++;
	if (size - at < 6 || p[at] != 0xff || p[at + 1] != 0x25)
		return 0;
	*ret_slot = address + at + 6 + (uint64_t)(int64_t)rel32(p + at + 2);
	return at + 6;
}

int cold_x86_64_refuse(const struct cold_module *m, uint64_t address, enum cold_hook hook,
		       const char *why)
{
	uint32_t range = cold_module_range(m, address);
	const char *name = range == COLD_NONE ? NULL : cold_range_name(m, range);

	return ip_error("%s: the reference to %s at 0x%lx%s%s%s cannot be turned into a NOP: %s",
			m->path, hook == COLD_HOOK_IS_ENTER ? COLD_HOOK_ENTER : COLD_HOOK_EXIT,
			(unsigned long)address, name ? " (in " : "", name ? name : "",
			name ? ")" : "", why);
}

/* Returns the opcode if it is one byte and the encoding is [67|f2] opcode ... Returns 0 for any
 * other encoding. */
static uint8_t plain_opcode(const ZydisDecodedInstruction *i)
{
	if (i->encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY ||
	    i->opcode_map != ZYDIS_OPCODE_MAP_DEFAULT)
		return 0;
	if (i->raw.prefix_count > 1)
		return 0;
	if (i->raw.prefix_count == 1 && i->raw.prefixes[0].value != 0x67 &&
	    i->raw.prefixes[0].value != 0xf2)
		return 0;
	return i->opcode;
}

/* Adds the site of an instruction that refers to a hook. Returns 0: a site was added; -1 with an
 * error. */
static int add_site(const struct cold_module *m, const struct cold_insn *insn, enum cold_hook hook,
		    bool slot, uint32_t range, struct cold_sites *sites)
{
	const ZydisDecodedInstruction *i = &insn->insn;
	uint8_t opcode = plain_opcode(i), reg = i->raw.modrm.reg;
	bool call = (!slot && opcode == 0xe8) || (slot && opcode == 0xff && reg == 2);
	bool jump = (!slot && opcode == 0xe9) || (slot && opcode == 0xff && reg == 4);
	struct cold_site site = {
		.address = insn->address,
		.range = range,
		.depth = COLD_DEPTH_UNKNOWN,
		.length = i->length,
	};

	if (cold_insn_is_jump(insn) && !jump)
		return cold_x86_64_refuse(m, insn->address, hook,
					  i->meta.category == ZYDIS_CATEGORY_COND_BR
						  ? "it is a conditional jump"
						  : "it is a jump of an unknown form");
	if (!call && !jump)
		return cold_x86_64_refuse(m, insn->address, hook,
					  "it takes the function's address, and a call through a "
					  "register has no room");
	if (i->length != 5 && i->length != 6)
		return cold_x86_64_refuse(m, insn->address, hook,
					  "the instruction is neither 5 nor 6 bytes long");
	if (jump && hook == COLD_HOOK_IS_ENTER)
		return cold_x86_64_refuse(
			m, insn->address, hook,
			"it is a tail call, which no compiler makes of an entry hook");
	if (jump) {
		site.kind = IP_PROBE_TAIL_EXIT;
		site.form = IP_FORM_RETURN;
	} else {
		site.kind = hook == COLD_HOOK_IS_ENTER ? IP_PROBE_ENTRY : IP_PROBE_EXIT;
	}
	return cold_sites_add(sites, site);
}

/* Notes a jump or call from one range to another. */
static void note_transfer(struct cold_module *m, uint32_t from, uint64_t target, bool jump)
{
	uint32_t to = cold_module_range(m, target);

	if (jump && to != COLD_NONE &&
	    (target != m->ranges[to].start || cold_range_is_cold(m, to))) {
		cold_range_join(m, from, to);
		return;
	}
	if (jump)
		m->ranges[from].returns = true;
	if (to == COLD_NONE)
		return;
	if (m->ranges[to].symbol != COLD_NONE)
		return;
	if (!jump || (m->ranges[to].jumper != COLD_NONE && m->ranges[to].jumper != from))
		m->ranges[to].called = true;
	else
		m->ranges[to].jumper = from;
}

/* Without symbols: code that one function jumps to, and that no function calls, is that function's
 * cold part. (It may really be a function that only one other function tail-calls; treating it as a
 * cold part does no harm.) */
static void join_cold_parts(struct cold_module *m)
{
	for (uint32_t i = 0; i < m->nranges; i++) {
		struct cold_range *range = &m->ranges[i];

		if (range->jumper == COLD_NONE || range->called || range->gap)
			continue;
		range->cold = true;
		cold_range_join(m, range->jumper, i);
	}
}

/* What the sweep remembers of one range, to prove the decoding at the range's end. It is reused
 * from range to range. */
struct evidence {
	uint8_t *starts; /* one bit for each byte: an instruction starts there */
	size_t room;	 /* size of starts in bytes */
	uint64_t *targets;
	size_t ntargets;
};

static int evidence_reset(struct evidence *e, uint64_t size)
{
	size_t need = size / 8 + 1;

	e->ntargets = 0;
	if (need > e->room) {
		free(e->starts);
		e->starts = malloc(need);
		e->room = e->starts ? need : 0;
		if (!e->starts)
			return ip_error("out of memory");
	}
	memset(e->starts, 0, need);
	return 0;
}

static int evidence_target(struct evidence *e, uint64_t target)
{
	if (ip_array_grow(&e->targets, e->ntargets, sizeof(*e->targets)))
		return -1;
	e->targets[e->ntargets++] = target;
	return 0;
}

/*
 * Whether every jump within the range lands where an instruction was seen to start. Then the
 * decoding is the one that the code was made for. (Some compilers put data in front of a function's
 * first instruction, and a jump across the data.)
 */
static bool evidence_agrees(const struct evidence *e, const struct cold_range *range)
{
	for (size_t i = 0; i < e->ntargets; i++) {
		uint64_t at = e->targets[i] - range->start;

		if (!(e->starts[at / 8] & 1 << at % 8))
			return false;
	}
	return true;
}

/* Adds an addr32 prefix to a site. From a relocation alone, the prefix of its call looks like the
 * end of the instruction before. */
static int widen_site(const struct cold_insn *insn, struct cold_sites *sites)
{
	struct cold_site *site = cold_sites_at(sites, insn->address + 1);

	if (site && site->length == 5 && insn->insn.length == 6 && insn->bytes[0] == 0x67) {
		site->address--;
		site->length++;
	}
	return 0;
}

/* Looks at one instruction: a site, a jump out of the range, a reference to data. */
static int sweep_insn(struct cold_module *m, const struct cold_hooks *hooks,
		      const struct cold_insn *insn, uint32_t index, bool exact, struct evidence *e,
		      struct cold_sites *sites)
{
	struct cold_range *range = &m->ranges[index];
	bool jump = cold_insn_is_jump(insn);
	enum cold_hook hook;
	uint64_t target;
	unsigned reg;

	if (insn->insn.meta.category == ZYDIS_CATEGORY_RET ||
	    (jump && !cold_insn_target(insn, &target)))
		range->returns = true;
	if (jump && cold_insn_target(insn, &target) && cold_hook_at(hooks, target, false))
		range->returns = true;
	if (cold_insn_target(insn, &target)) {
		hook = cold_hook_at(hooks, target, false);
		if (hook)
			return exact ? widen_site(insn, sites)
				     : add_site(m, insn, hook, false, index, sites);
		if (target < range->start || target >= range->end)
			note_transfer(m, index, target, jump);
		else
			return evidence_target(e, target);
		return 0;
	}
	if (cold_insn_memory(insn, &target)) {
		hook = cold_hook_at(hooks, target, true);
		if (hook)
			return exact ? 0 : add_site(m, insn, hook, true, index, sites);
		hook = cold_hook_at(hooks, target, false);
		if (hook && !exact)
			return cold_x86_64_refuse(m, insn->address, hook,
						  "it takes the function's address");
		return cold_module_mark(m, target);
	}
	if (insn->bits == 32 && m->got && !exact && cold_insn_based(insn, m->got, &target, &reg)) {
		/* Only -fno-plt makes such calls, and then through a slot of this kind. */
		const struct cold_reloc *r =
			cold_hook_at(hooks, target, true) ? cold_module_reloc(m, target) : NULL;

		if (r && r->type == R_386_GLOB_DAT && insn->insn.opcode == 0xff &&
		    insn->insn.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT) {
			if (add_site(m, insn, cold_hook_at(hooks, target, true), true, index,
				     sites))
				return -1;
			sites->sites[sites->n - 1].by_register = true;
			return 0;
		}
		return cold_module_mark(m, target);
	}
	return cold_insn_table(insn, &target) ? cold_module_mark(m, target) : 0;
}

static int sweep_range(struct cold_module *m, const struct cold_hooks *hooks,
		       const ZydisDecoder *decoder, uint32_t index, bool exact, struct evidence *e,
		       struct cold_sites *sites)
{
	struct cold_range *range = &m->ranges[index];
	const struct cold_section *section =
		cold_module_section(m, range->start, range->end - range->start);
	uint64_t at = range->start;
	size_t first = sites->n;
	bool clean = true;

	if (!section)
		return 0;
	if (evidence_reset(e, range->end - range->start))
		return -1;
	while (at < range->end) {
		struct cold_insn insn;

		if (!cold_insn_at(decoder, section, at, range->end, &insn)) {
			clean = false;
			at++;
			continue;
		}
		e->starts[(at - range->start) / 8] |= 1 << (at - range->start) % 8;
		if (sweep_insn(m, hooks, &insn, index, exact, e, sites))
			return -1;
		at = insn.next;
	}
	range->clean = clean && evidence_agrees(e, range);
	for (size_t i = first; i < sites->n && !exact; i++)
		sites->sites[i].doubtful = !range->clean;
	return 0;
}

static bool short_jump(uint8_t opcode)
{
	return opcode == 0xeb || (opcode & 0xf0) == 0x70 || (opcode >= 0xe0 && opcode <= 0xe3);
}

/* The last four bytes of a site are its relative operand. */
static bool site_ends_at(const struct cold_sites *sites, uint64_t end)
{
	const struct cold_site *site = cold_sites_at(sites, end - 5);

	if (site && site->length == 5)
		return true;
	site = cold_sites_at(sites, end - 6);
	return site && site->length == 6;
}

static int scan_section(const struct cold_module *m, const struct cold_hooks *hooks,
			const struct cold_section *s, const struct cold_sites *sites)
{
	for (uint64_t at = 0; at < s->size; at++) {
		uint64_t address = s->address + at, end = 0, start = address;
		enum cold_hook hook = COLD_HOOK_NONE;
		uint32_t range;

		if (s->size - at >= 4) {
			uint64_t v = (uint64_t)(int64_t)rel32(s->data + at);

			end = address + 4;
			hook = cold_hook_at(hooks, m->bits == 64 ? end + v : (uint32_t)(end + v),
					    false);
			if (!hook) /* i386 refers to a slot by its address */
				hook = cold_hook_at(hooks, m->bits == 64 ? end + v : (uint32_t)v,
						    true);
			if (hook && site_ends_at(sites, end))
				continue;
		}
		if (!hook && s->size - at >= 2 && short_jump(s->data[at]))
			hook = cold_hook_at(
				hooks, address + 2 + (uint64_t)(int64_t)(int8_t)s->data[at + 1],
				false);
		if (!hook)
			continue;
		range = cold_module_range(m, start);
		if (range == COLD_NONE || !m->ranges[range].clean)
			return cold_x86_64_refuse(m, start, hook,
						  "the code around it does not decode, so it is "
						  "not known to be an instruction");
	}
	return 0;
}

/* The function: [endbr64] ret */
static bool is_empty_function(const uint8_t *p, size_t size)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};

	if (size > sizeof(endbr64) && !memcmp(p, endbr64, sizeof(endbr64)))
		p += sizeof(endbr64);
	else if (size >= 2 && p[0] == 0xf3)
		p++; /* rep ret */
	else if (!size)
		return false;
	return *p == 0xc3;
}

/*
 * The bytes in front of a kept relocation's operand, as the assembler wrote them and as linkers
 * relax them:
 *
 *   e8 rel32                  call hook          PLT32, PC32
 *   e9 rel32                  jmp hook
 *   ff 15 rel32               call *slot(%rip)   GOTPCREL, GOTPCRELX
 *     67 e8 rel32             relaxed to addr32 call hook; ld makes the relocation PC32
 *     90 e8 rel32             relaxed to nop; call hook (mold; its jumps likewise)
 *   ff 25 rel32               jmp *slot(%rip)
 *     e9 rel32 90             relaxed to jmp hook; nop. ld moves the relocation along, others leave
 *                             it one byte behind
 */
static int kept_site(const struct cold_module *m, const struct cold_hooks *hooks,
		     const struct cold_kept_reloc *r, struct cold_site *ret)
{
	const uint8_t *p = cold_module_bytes(m, r->address - 2, 6);
	const struct cold_section *s = cold_module_section(m, r->address, 4);
	bool direct = r->type == R_X86_64_PLT32 || r->type == R_X86_64_PC32;
	bool loaded = r->type == R_X86_64_GOTPCREL || r->type == R_X86_64_GOTPCRELX;
	bool jump = false, slot = false;
	uint64_t target, back = 1;

	if (!s || !s->exec)
		return ip_error("%s: the data at 0x%lx holds the address of %s: calls through it "
				"cannot be turned into a NOP",
				m->path, (unsigned long)r->address,
				r->hook == COLD_HOOK_IS_ENTER ? COLD_HOOK_ENTER : COLD_HOOK_EXIT);
	if (!p || (!direct && !loaded))
		return cold_x86_64_refuse(
			m, r->address, r->hook,
			"it takes the function's address, and a call through a register has no "
			"room (do not build with -mcmodel=large)");
	if (p[0] == 0xff && (p[1] == 0x15 || p[1] == 0x25) && loaded) {
		slot = true;
		jump = p[1] == 0x25;
		back = 2;
	} else if (loaded && p[0] == 0x67 && p[1] == 0xe8) {
		back = 2;
	} else if (loaded && p[0] == 0xe9 && p[5] == 0x90) {
		jump = true;
		back = 2;
	} else if ((direct || (loaded && p[0] == 0x90)) && (p[1] == 0xe8 || p[1] == 0xe9)) {
		jump = p[1] == 0xe9;
	} else {
		return cold_x86_64_refuse(m, r->address, r->hook,
					  "it is neither a call nor a jump");
	}
	ret->address = r->address - back;
	ret->length = !jump || slot ? 4 + back : 5;
	if (jump && r->hook == COLD_HOOK_IS_ENTER)
		return cold_x86_64_refuse(
			m, ret->address, r->hook,
			"it is a tail call, which no compiler makes of an entry hook");
	ret->kind = jump			    ? IP_PROBE_TAIL_EXIT
		    : r->hook == COLD_HOOK_IS_ENTER ? IP_PROBE_ENTRY
						    : IP_PROBE_EXIT;
	ret->form = jump ? IP_FORM_RETURN : IP_FORM_CALL;
	/* relocations that do not belong to this code would lead elsewhere */
	target = ret->address + ret->length +
		 (uint64_t)(int64_t)rel32(p + 2 - (jump && !slot ? back - 1 : 0));
	if (!hooks->shared_address && cold_hook_at(hooks, target, slot) &&
	    cold_hook_at(hooks, target, slot) != r->hook)
		return cold_x86_64_refuse(m, ret->address, r->hook,
					  "the call there leads to the other one; link it again");
	if (!cold_module_section(m, target, 1))
		return cold_x86_64_refuse(m, ret->address, r->hook,
					  "the call there leads out of the module; link it again");
	return 0;
}

int cold_x86_64_sweep(struct cold_module *m, const struct cold_hooks *hooks, bool exact,
		      struct cold_sites *sites)
{
	struct evidence e = {0};
	ZydisDecoder decoder;
	int failed = 0;

	cold_insn_init(&decoder, m->bits);
	for (uint32_t i = 0; i < m->nranges && !failed; i++)
		failed = sweep_range(m, hooks, &decoder, i, exact, &e, sites);
	free(e.starts);
	free(e.targets);
	if (failed)
		return -1;
	cold_module_sort_marks(m);
	join_cold_parts(m);
	for (uint32_t i = 0; i < m->nranges; i++)
		m->ranges[cold_range_root(m, i)].returns |= m->ranges[i].returns;
	if (exact)
		return 0;
	cold_sites_sort(sites);
	for (size_t i = 0; i < m->nsections; i++)
		if (m->sections[i].exec && !m->sections[i].plt &&
		    scan_section(m, hooks, &m->sections[i], sites))
			return -1;
	return 0;
}

const struct cold_arch cold_arch_x86_64 = {
	.machine = EM_X86_64,
	.module = {.reloc_is_relative = reloc_is_relative},
	.reloc_is_slot = reloc_is_slot,
	.reloc_is_resolved = reloc_is_resolved,
	.stub = stub,
	.sweep = cold_x86_64_sweep,
	.kept_site = kept_site,
	.is_empty_function = is_empty_function,
	.nops = cold_x86_64_nops,
	.entered = cold_x86_64_entered,
	.endbr = cold_x86_64_endbr,
	.call = cold_x86_64_call,
	.returns = cold_x86_64_returns,
	.sled = cold_x86_64_sled,
	.after = cold_x86_64_after,
	.flow = cold_x86_64_flow,
	.flags_dead = cold_x86_64_flags_dead,
};
