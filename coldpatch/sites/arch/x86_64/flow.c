/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the function that a site belongs to. The code itself says it: the hook's first argument is
 * the function's address, also if the function was inlined into another. This file follows
 * constants through the function to each site.
 *
 *  1. Ranges that jump into each other, or whose exceptions land in each other, are one unit: a
 *     function and its cold part.
 *  2. States are carried from each entry along the control flow until nothing changes. Where ways
 *     join, only what all of them agree on is kept. Jump tables are read. Exceptions go from each
 *     call to its landing pad.
 *  3. Some blocks were not reached. They get the state that all indirect jumps of unknown target
 *     (computed goto) agree on. A block behind a call that does not return gets the state that
 *     would hold if the call returned. If there is no such jump, the blocks are dead code, or data.
 *     They must not change the state of a block that was reached.
 *  4. Every block runs once more, to note the first argument (rdi; i386: on the stack) and the
 *     nesting depth at the sites.
 *
 * A way that was overlooked does no harm: it is one more way to a site whose argument is the same
 * on all ways, unless the compiler merged two calls. A way that does not exist only makes values
 * unknown.
 */
#include "coldpatch/elf/eh_frame.h"
#include "coldpatch/sites/arch/x86_64/calls.h"
#include "coldpatch/sites/arch/x86_64/flow_blocks.h"
#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"
#include "common/cleanup.h"
#include "common/elf/probe_list.h"
#include "common/error.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#define PUSHED	  16	    /* size of a hook's two arguments, with the stack aligned */
#define FRAME_MAX (1 << 30) /* a larger frame is an error */

static unsigned entry_size(const struct cold_module *m, struct value table)
{
	return table.kind == VALUE_TARGETS32 ? 4 : m->bits / 8;
}

static uint64_t table_entry(const struct cold_module *m, struct value table, size_t i, bool *ret_ok)
{
	unsigned size = entry_size(m, table);
	const uint8_t *p = cold_module_bytes(m, table.v + i * size, size);
	const struct cold_reloc *r;
	uint64_t v64;
	int32_t v32;

	*ret_ok = p;
	if (!p)
		return 0;
	if (size == 4 && m->bits == 32) {
		r = cold_module_reloc(m, table.v + i * size);
		memcpy(&v32, p, 4);
		return (uint32_t)(r ? (uint64_t)r->addend + r->value
				    : (uint64_t)table.base + (uint64_t)(int64_t)v32);
	}
	if (size == 4) {
		memcpy(&v32, p, 4);
		return table.v + (uint64_t)(int64_t)v32;
	}
	r = cold_module_reloc(m, table.v + i * size);
	if (r)
		return (uint64_t)r->addend + r->value;
	memcpy(&v64, p, 8);
	return v64;
}

static int jump_indirect(struct unit *u, const struct cold_insn *insn)
{
	struct value target;
	uint64_t end;

	if (u->recording)
		return 0;
	target = state_jump_target(&u->now, &u->decoder, insn);
	if (target.kind != VALUE_TARGETS32 && target.kind != VALUE_TARGETS64)
		return unit_escape(u);
	end = cold_module_next_mark(u->m, target.v);
	for (size_t i = 0;; i++) {
		uint32_t range, *slot;
		bool ok;
		uint64_t address = table_entry(u->m, target, i, &ok);

		if (i && target.v + i * entry_size(u->m, target) >= end)
			return 0;
		slot = ok ? unit_slot(u, address, &range) : NULL;
		/* What lies behind the last table that the code refers to leads elsewhere, or into
		 * an instruction. */
		if (!slot || *slot == NO_INSN)
			return i ? 0 : unit_escape(u);
		if (unit_propagate(u, address, &u->now))
			return -1;
	}
}

static int throw_to_landings(struct unit *u, const struct cold_insn *insn)
{
	if (u->recording || !u->nlandings)
		return 0;
	state_load(&u->other, &u->now);
	state_after_call(&u->other);
	state_forget_stack(&u->other);
	for (size_t i = 0; i < u->nlandings; i++) {
		const struct cold_landing *row = &u->landings[i];

		if (insn->address >= row->start && insn->address < row->end &&
		    unit_propagate(u, row->pad, &u->other))
			return -1;
	}
	return 0;
}

/* Notes the state at a site. pushed: a push was the last change of the stack pointer. */
static void record(struct unit *u, struct cold_site *site, bool pushed)
{
	struct value first = state_first_argument(&u->now, site->form == IP_FORM_RETURN);
	struct value rsp = u->now.reg[REG_RSP];

	site->depth = u->now.depth;
	site->argument_kind = COLD_ARGUMENT_UNKNOWN;
	site->frame = 0;
	/* at the function's start only the return address lies between the stack pointer and its
	 * value before the call */
	if (site->kind == IP_PROBE_ENTRY && rsp.kind == VALUE_STACK && !rsp.base &&
	    (int64_t)rsp.v <= 0 && (int64_t)rsp.v > -FRAME_MAX)
		site->frame = u->m->bits / 8 - (int64_t)rsp.v;
	/* A function of i386 that pushes arguments may call others with more room on the stack than
	 * it has at this site. What counts is that a caller's own site is not taken for a part of
	 * this frame. */
	if (pushed && site->frame)
		site->frame = site->frame > PUSHED + 8 ? site->frame - PUSHED : 8;
	if (first.kind == VALUE_CONST) {
		site->argument_kind = COLD_ARGUMENT_ADDRESS;
		site->argument = first.v;
	} else if (first.kind == VALUE_SLOT) {
		site->argument_kind = COLD_ARGUMENT_SLOT;
		site->argument = first.v;
	}
}

/*
 * i386: functions that return a structure take the pointer to it off the stack, and the code of
 * their callers does not show that. The unwind tables know where the stack pointer is, unless the
 * function has a frame pointer. Then everything that the function keeps on the stack is found
 * through the frame pointer.
 */
static void find_stack(struct unit *u, uint64_t address)
{
	Dwarf_Frame *frame = NULL;
	int64_t offset = 0;
	bool known = false;
	Dwarf_Op *ops;
	size_t n;

	if (state_knows_stack(&u->now))
		return;
	if (u->cfi && !dwarf_cfi_addrframe(u->cfi, address, &frame)) {
		known = !dwarf_frame_cfa(frame, &ops, &n) && n == 1 && ops[0].atom == DW_OP_bregx &&
			ops[0].number == REG_RSP;
		/* The frame's address is the value of the stack pointer before the call pushed the
		 * return address. */
		if (known)
			offset = 4 - (int64_t)ops[0].number2;
		free(frame);
	}
	state_name_stack(&u->now, address, known ? &offset : NULL);
}

static int run_block(struct unit *u, uint32_t index)
{
	const struct cold_range *range = &u->m->ranges[u->blocks[index].range];
	const struct cold_section *section = cold_module_section(u->m, range->start, 1);
	uint64_t at = u->blocks[index].start;
	bool pushed = false;

	state_load(&u->now, u->blocks[index].in);
	if (u->m->bits == 32)
		find_stack(u, at);
	for (;;) {
		struct cold_site *site = NULL;
		struct cold_insn insn;
		uint32_t ignored;
		uint64_t target;
		struct value sp = u->now.reg[REG_RSP];
		unsigned reg;

		if (!cold_insn_at(&u->decoder, section, at, range->end, &insn))
			return 0;
		if (insn.insn.meta.category == ZYDIS_CATEGORY_CALL ||
		    insn.insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    insn.insn.mnemonic == ZYDIS_MNEMONIC_NOP)
			site = cold_sites_at(u->sites, at);
		if (site && u->recording) {
			record(u, site, u->m->bits == 32 && pushed);
			if (site->by_register && cold_insn_based(&insn, 0, &target, &reg))
				site->by_got = u->now.reg[reg].kind == VALUE_CONST &&
					       u->now.reg[reg].v == u->m->got;
		}
		if (cold_insn_is_jump(&insn)) {
			bool direct = cold_insn_target(&insn, &target);

			if (site)
				return 0;
			if (direct && jump_is_thunk(u->m, target))
				return unit_escape(u);
			if (direct && unit_propagate(u, target, &u->now))
				return -1;
			if (!direct && jump_indirect(u, &insn))
				return -1;
			if (cold_insn_is_unconditional(&insn))
				return 0;
			state_step(&u->now, &u->decoder, &insn, u->m); /* loop counts in rcx */
			return unit_propagate(u, insn.next, &u->now);
		}
		if (insn.insn.meta.category == ZYDIS_CATEGORY_RET ||
		    insn.insn.mnemonic == ZYDIS_MNEMONIC_UD2 ||
		    insn.insn.mnemonic == ZYDIS_MNEMONIC_HLT ||
		    insn.insn.mnemonic == ZYDIS_MNEMONIC_INT3)
			return 0;
		if (insn.insn.meta.category == ZYDIS_CATEGORY_CALL) {
			if (throw_to_landings(u, &insn))
				return -1;
			if (call_never_returns(u->m, u->hooks, &insn))
				return unit_note_behind(u, insn.next);
		}
		if (site && !site->idle)
			state_after_call(&u->now); /* a hook takes no arguments off the stack */
		else
			state_step(&u->now, &u->decoder, &insn, u->m);
		if (u->m->bits == 32 && insn.insn.meta.category == ZYDIS_CATEGORY_CALL &&
		    insn.next < range->end)
			find_stack(u, insn.next);
		if (site && u->now.depth != COLD_DEPTH_UNKNOWN)
			u->now.depth += site->kind == IP_PROBE_ENTRY ? 1 : -1;
		if (!value_equal(u->now.reg[REG_RSP], sp))
			pushed = insn.insn.mnemonic == ZYDIS_MNEMONIC_PUSH;
		at = insn.next;
		if (at >= range->end)
			return 0;
		if (unit_is_block(*unit_slot(u, at, &ignored)))
			return unit_propagate(u, at, &u->now);
	}
}

static int run(struct unit *u)
{
	while (u->nqueue) {
		uint32_t block = u->queue[--u->nqueue];

		u->blocks[block].queued = false;
		if (run_block(u, block))
			return -1;
	}
	return 0;
}

/* Starts blocks at jump targets and behind each instruction that does not go on to the next. */
static int find_blocks(struct unit *u)
{
	for (size_t i = 0; i < u->nmembers; i++) {
		const struct cold_range *range = &u->m->ranges[u->members[i]];
		const struct cold_section *section = cold_module_section(u->m, range->start, 1);
		uint64_t at = range->start;
		uint32_t block, ignored, *slot;

		if (unit_lead(u, at, &block))
			return -1;
		while (section && at < range->end) {
			struct cold_insn insn;
			uint64_t target;

			if (!cold_insn_at(&u->decoder, section, at, range->end, &insn)) {
				at++;
				continue;
			}
			slot = unit_slot(u, at, &ignored);
			if (*slot == NO_INSN)
				*slot = NO_BLOCK;
			if (cold_insn_is_jump(&insn)) {
				if (cold_insn_target(&insn, &target) &&
				    unit_lead(u, target, &block))
					return -1;
				if (unit_lead(u, insn.next, &block))
					return -1;
			} else if (insn.insn.meta.category == ZYDIS_CATEGORY_RET ||
				   insn.insn.mnemonic == ZYDIS_MNEMONIC_UD2 ||
				   (insn.insn.meta.category == ZYDIS_CATEGORY_CALL &&
				    call_never_returns(u->m, u->hooks, &insn))) {
				if (unit_lead(u, insn.next, &block))
					return -1;
			}
			at = insn.next;
		}
	}
	return 0;
}

static int seed_entries(struct unit *u)
{
	size_t proper = 0;

	for (size_t i = 0; i < u->nmembers; i++)
		proper += !cold_range_is_cold(u->m, u->members[i]);
	for (size_t i = 0; i < u->nmembers; i++) {
		const struct cold_range *range = &u->m->ranges[u->members[i]];

		if (cold_range_is_cold(u->m, u->members[i]))
			continue;
		state_clear(&u->now, u->m->bits);
		/* A range without a symbol may start in the middle of a function: then nothing is
		 * known. */
		if (range->symbol != COLD_NONE || (!range->gap && proper == 1)) {
			u->now.depth = 0;
			u->now.reg[REG_RSP] = (struct value){.kind = VALUE_STACK};
		}
		if (unit_propagate(u, range->start, &u->now) || run(u))
			return -1;
	}
	return 0;
}

/* Whether only NOPs lie between a jump and the next block: control never runs through them. */
static bool is_padding(struct unit *u, const struct cold_range *range, uint64_t at)
{
	const struct cold_section *section = cold_module_section(u->m, range->start, 1);
	struct cold_insn insn;
	uint32_t ignored;

	do {
		if (!cold_insn_at(&u->decoder, section, at, range->end, &insn))
			return false;
		if (insn.insn.mnemonic != ZYDIS_MNEMONIC_NOP &&
		    insn.insn.mnemonic != ZYDIS_MNEMONIC_INT3)
			return false;
		at = insn.next;
	} while (at < range->end && !unit_is_block(*unit_slot(u, at, &ignored)));
	return true;
}

static int seed_orphans(struct unit *u)
{
	for (size_t i = 0; i < u->nblocks; i++)
		u->blocks[i].reached = u->blocks[i].in;
	u->dead = !u->escape;
	for (size_t i = 0; i < u->nmembers; i++) {
		const struct cold_range *range = &u->m->ranges[u->members[i]];

		for (uint64_t at = range->start; at < range->end; at++) {
			uint32_t ignored, block = *unit_slot(u, at, &ignored);

			if (!unit_is_block(block) || u->blocks[block].in ||
			    is_padding(u, range, at))
				continue;
			if (u->blocks[block].behind) {
				state_load(&u->other, u->blocks[block].behind);
				if (u->escape)
					state_meet(&u->other, u->escape);
			} else if (u->escape) {
				state_load(&u->other, u->escape);
			} else {
				state_clear(&u->other, u->m->bits);
			}
			if (unit_propagate(u, at, &u->other) || run(u))
				return -1;
		}
	}
	return 0;
}

static int read_landings(struct unit *u)
{
	for (size_t i = 0; i < u->nmembers; i++) {
		const struct cold_range *range = &u->m->ranges[u->members[i]];
		_cleanup_free_ struct cold_landing *rows = NULL;
		struct cold_landing *grown;
		size_t n;

		if (!range->lsda)
			continue;
		if (cold_landings_read(u->m, range->lsda, range->start, &rows, &n) < 0)
			return -1;
		if (!n)
			continue;
		grown = reallocarray(u->landings, u->nlandings + n, sizeof(*grown));
		if (!grown)
			return ip_error("out of memory");
		u->landings = grown;
		memcpy(u->landings + u->nlandings, rows, n * sizeof(*rows));
		u->nlandings += n;
	}
	return 0;
}

static int solve(struct unit *u)
{
	u->bases = calloc(u->nmembers, sizeof(*u->bases));
	if (!u->bases)
		return ip_error("out of memory");
	for (size_t i = 0; i < u->nmembers; i++) {
		u->bases[i] = u->nbytes;
		u->nbytes += u->m->ranges[u->members[i]].end - u->m->ranges[u->members[i]].start;
	}
	u->block_at = malloc(u->nbytes * sizeof(*u->block_at));
	if (!u->block_at)
		return ip_error("out of memory");
	for (size_t i = 0; i < u->nbytes; i++)
		u->block_at[i] = NO_INSN;
	if (read_landings(u) || find_blocks(u) || seed_entries(u) || seed_orphans(u))
		return -1;
	u->recording = true;
	/* Blocks that were reached run last, so their result is valid. A block that was not reached
	 * may be data that runs on into instructions. */
	for (unsigned reached = 0; reached < 2; reached++)
		for (size_t i = 0; i < u->nblocks; i++)
			if (u->blocks[i].in && u->blocks[i].reached == reached && run_block(u, i))
				return -1;
	return 0;
}

/* Exceptions may land in the cold part, which then belongs to the same unit. */
static int join_landings(struct cold_module *m)
{
	for (uint32_t i = 0; i < m->nranges; i++) {
		_cleanup_free_ struct cold_landing *rows = NULL;
		size_t n;

		if (!m->ranges[i].lsda)
			continue;
		if (cold_landings_read(m, m->ranges[i].lsda, m->ranges[i].start, &rows, &n) < 0)
			return -1;
		for (size_t j = 0; j < n; j++) {
			uint32_t other = cold_module_range(m, rows[j].pad);

			if (other != COLD_NONE && other != i)
				cold_range_join(m, i, other);
		}
	}
	return 0;
}

struct member {
	uint32_t root, range;
};

static int compare_members(const void *pa, const void *pb)
{
	const struct member *a = pa, *b = pb;

	if (a->root != b->root)
		return a->root < b->root ? -1 : 1;
	return a->range < b->range ? -1 : a->range > b->range;
}

static int flow(struct cold_module *m, const struct cold_hooks *hooks, struct cold_sites *sites,
		Dwarf_CFI *cfi)
{
	_cleanup_free_ struct member *members = NULL;
	_cleanup_free_ uint32_t *ranges = NULL;
	_cleanup_free_ struct unit *u = NULL;
	size_t n = 0;

	if (join_landings(m))
		return -1;
	for (size_t i = 0; i < sites->n; i++)
		if (sites->sites[i].range != COLD_NONE)
			m->ranges[cold_range_root(m, sites->sites[i].range)].sites = true;
	members = calloc(m->nranges + 1, sizeof(*members));
	ranges = calloc(m->nranges + 1, sizeof(*ranges));
	u = calloc(1, sizeof(*u));
	if (!members || !ranges || !u)
		return ip_error("out of memory");
	for (uint32_t i = 0; i < m->nranges; i++) {
		uint32_t root = cold_range_root(m, i);

		if (m->ranges[root].sites &&
		    cold_module_section(m, m->ranges[i].start,
					m->ranges[i].end - m->ranges[i].start))
			members[n++] = (struct member){.root = root, .range = i};
	}
	qsort(members, n, sizeof(*members), compare_members);
	for (size_t i = 0, j; i < n; i = j) {
		int failed;

		for (j = i; j < n && members[j].root == members[i].root; j++)
			ranges[j - i] = members[j].range;
		u->m = m;
		u->hooks = hooks;
		u->sites = sites;
		u->cfi = cfi;
		cold_insn_init(&u->decoder, m->bits);
		u->members = ranges;
		u->nmembers = j - i;
		failed = solve(u);
		unit_release(u);
		if (failed)
			return -1;
	}
	return 0;
}

int cold_x86_64_flow(struct cold_module *m, const struct cold_hooks *hooks,
		     struct cold_sites *sites)
{
	Dwarf_CFI *cfi = m->bits == 32 ? dwarf_getcfi_elf(m->elf->elf) : NULL;
	int result = flow(m, hooks, sites, cfi);

	if (cfi)
		dwarf_cfi_end(cfi);
	return result;
}
