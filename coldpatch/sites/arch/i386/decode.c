// SPDX-License-Identifier: Apache-2.0
/*
 * ColdPatch on i386. The instructions are decoded and followed by the code for x86-64
 * (arch/x86_64/); the module tells it the width of an address. What differs is how code finds data:
 * through the address of the offset table in a register, or by absolute address. Hooks are cdecl:
 * their arguments are on the stack, and stay there when the call has become a NOP.
 */
#include "coldpatch/sites/arch.h"
#include "coldpatch/sites/arch/x86_64/insn.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <string.h>

static const uint8_t endbr32[] = {0xf3, 0x0f, 0x1e, 0xfb};

static bool reloc_is_slot(uint32_t type)
{
	return type == R_386_GLOB_DAT || type == R_386_JMP_SLOT;
}

static bool reloc_is_relative(uint32_t type)
{
	return type == R_386_RELATIVE;
}

/*
 * Whether base is the address of the offset table that the stubs use. If it is, each stub jumps
 * through a slot, and each slot that is bound lazily has a stub. (Slots lie side by side. Only both
 * conditions together rule out a base that is a few slots off. With such a base, calls of other
 * functions would look like calls of the hooks.) The first stub belongs to the table itself, and
 * jumps through the table's third word.
 */
static bool stubs_agree(const struct cold_module *m, uint64_t base)
{
	size_t lazy = 0, hit = 0;

	for (size_t i = 0; i < m->nrelocs; i++)
		lazy += m->relocs[i].type == R_386_JMP_SLOT;
	for (size_t i = 0; i < m->nsections; i++) {
		const struct cold_section *s = &m->sections[i];

		for (uint64_t at = 0; s->plt && at + 6 <= s->size; at++) {
			const struct cold_reloc *r;
			uint32_t v;

			if (s->data[at] != 0xff || s->data[at + 1] != 0xa3)
				continue;
			memcpy(&v, s->data + at + 2, sizeof(v));
			if (v == 8)
				continue;
			r = cold_module_reloc(m, (uint32_t)(base + v));
			if (!r || !reloc_is_slot(r->type))
				return false;
			hit += r->type == R_386_JMP_SLOT;
			at += 5;
		}
	}
	return !hit || hit >= lazy;
}

/* Takes the address that the symbol gives, else the dynamic section, else (mold) the section. The
 * stubs must agree with it. */
static uint64_t offset_table(const struct cold_module *m)
{
	uint64_t candidates[4] = {0};
	Elf_Scn *scn = NULL;

	if (ip_elf_symbol(m->elf, "_GLOBAL_OFFSET_TABLE_", &candidates[0]) < 0)
		candidates[0] = 0;
	while ((scn = elf_nextscn(m->elf->elf, scn))) {
		GElf_Shdr shdr;
		Elf_Data *data;
		GElf_Dyn dyn;

		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_DYNAMIC ||
		    !(data = elf_getdata(scn, NULL)))
			continue;
		for (int i = 0; gelf_getdyn(data, i, &dyn) && dyn.d_tag != DT_NULL; i++)
			if (dyn.d_tag == DT_PLTGOT)
				candidates[1] = dyn.d_un.d_ptr;
	}
	for (size_t i = 0; i < m->nsections; i++) {
		if (!strcmp(m->sections[i].name, ".got.plt"))
			candidates[2] = m->sections[i].address;
		if (!strcmp(m->sections[i].name, ".got"))
			candidates[3] = m->sections[i].address;
	}
	for (size_t i = 0; i < 4; i++)
		if (candidates[i] && stubs_agree(m, candidates[i]))
			return candidates[i];
	return 0;
}

/* The stub: [endbr32] [mov $number,%ecx] jmp *slot, or jmp *slot@GOT(%ebx) */
static size_t stub(const struct cold_module *m, const uint8_t *p, size_t size, uint64_t address,
		   uint64_t *ret_slot)
{
	size_t at = 0;
	uint32_t v;

	(void)address;
	if (size >= sizeof(endbr32) && !memcmp(p, endbr32, sizeof(endbr32)))
		at = sizeof(endbr32);
	if (size - at >= 5 && p[at] == 0xb9)
		at += 5; /* mold */
	if (size - at < 6 || p[at] != 0xff || (p[at + 1] != 0x25 && p[at + 1] != 0xa3))
		return 0;
	memcpy(&v, p + at + 2, sizeof(v));
	if (p[at + 1] == 0xa3 && !m->got)
		return 0;
	*ret_slot = (uint32_t)(p[at + 1] == 0xa3 ? m->got + v : v);
	return at + 6;
}

/* Checks the second byte of ff /number: it must have a 32-bit displacement, which is absolute or
 * relative to a register other than the stack pointer. */
static bool is_through_slot(uint8_t modrm, unsigned number)
{
	if ((modrm >> 3 & 7) != number)
		return false;
	return (modrm & 0xc7) == 0x05 || ((modrm & 0xc0) == 0x80 && (modrm & 7) != 4);
}

/*
 * The bytes in front of a kept relocation's operand, as the assembler wrote them and as linkers
 * relax them:
 *
 *   e8 rel32                  call hook               PLT32, PC32
 *   e9 rel32                  jmp hook
 *   ff 15 abs32               call *slot              GOT32X, GOT32
 *   ff 90+reg disp32          call *slot@GOT(%reg)    GOT32X, GOT32
 *     67 e8 rel32             relaxed to addr16 call hook
 *   ff 25 abs32               jmp *slot               GOT32X, GOT32
 *   ff a0+reg disp32          jmp *slot@GOT(%reg)     GOT32X, GOT32
 *     e9 rel32 90             relaxed to jmp hook; nop. ld moves the relocation along, others leave
 *                             it one byte behind
 */
static int kept_site(const struct cold_module *m, const struct cold_hooks *hooks,
		     const struct cold_kept_reloc *r, struct cold_site *ret)
{
	const uint8_t *p = cold_module_bytes(m, r->address - 2, 6);
	const struct cold_section *s = cold_module_section(m, r->address, 4);
	bool direct = r->type == R_386_PLT32 || r->type == R_386_PC32;
	bool loaded = r->type == R_386_GOT32X || r->type == R_386_GOT32;
	bool jump = false;
	uint64_t target, back = 1;
	uint32_t v;

	if (!s || !s->exec)
		return ip_error("%s: the data at 0x%lx holds the address of %s: calls through it "
				"cannot be turned into a NOP",
				m->path, (unsigned long)r->address,
				r->hook == COLD_HOOK_IS_ENTER ? COLD_HOOK_ENTER : COLD_HOOK_EXIT);
	if (!p || (!direct && !loaded))
		return cold_x86_64_refuse(m, r->address, r->hook,
					  "it takes the function's address, and a call through a "
					  "register has no room");
	if (loaded && p[0] == 0xff && (is_through_slot(p[1], 2) || is_through_slot(p[1], 4))) {
		jump = is_through_slot(p[1], 4);
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
	ret->length = jump && p[0] == 0xe9 ? 5 : 4 + back;
	if (jump && r->hook == COLD_HOOK_IS_ENTER)
		return cold_x86_64_refuse(
			m, ret->address, r->hook,
			"it is a tail call, which no compiler makes of an entry hook");
	ret->kind = jump			    ? IP_PROBE_TAIL_EXIT
		    : r->hook == COLD_HOOK_IS_ENTER ? IP_PROBE_ENTRY
						    : IP_PROBE_EXIT;
	ret->form = jump ? IP_FORM_RETURN : IP_FORM_CALL;
	if (p[0] == 0xff)
		return 0;
	/* relocations that do not belong to this code would lead elsewhere */
	memcpy(&v, p + ret->address + ret->length - (r->address - 2) - 4, sizeof(v));
	target = (uint32_t)(ret->address + ret->length + v);
	if (!cold_module_section(m, target, 1) ||
	    (!hooks->shared_address && cold_hook_at(hooks, target, false) &&
	     cold_hook_at(hooks, target, false) != r->hook))
		return cold_x86_64_refuse(m, ret->address, r->hook,
					  "the call there leads elsewhere; link it again");
	return 0;
}

/* The function: [endbr32] ret */
static bool is_empty_function(const uint8_t *p, size_t size)
{
	if (size > sizeof(endbr32) && !memcmp(p, endbr32, sizeof(endbr32)))
		p += sizeof(endbr32);
	else if (size >= 2 && p[0] == 0xf3)
		p++; /* rep ret */
	else if (!size)
		return false;
	return *p == 0xc3;
}

const struct cold_arch cold_arch_i386 = {
	.machine = EM_386,
	.module = {.reloc_is_relative = reloc_is_relative, .offset_table = offset_table},
	.reloc_is_slot = reloc_is_slot,
	.stub = stub,
	.sweep = cold_x86_64_sweep,
	.kept_site = kept_site,
	.is_empty_function = is_empty_function,
	.flow = cold_x86_64_flow,
};
