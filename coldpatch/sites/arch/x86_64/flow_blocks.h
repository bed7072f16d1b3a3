/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One unit of the constant propagation in flow.c: a function and its cold part, cut into blocks.
 * The unit holds what is known at the start of each block, and the queue of the blocks that must
 * run.
 */
#ifndef COLD_X86_64_UNIT_H
#define COLD_X86_64_UNIT_H

#include "coldpatch/elf/eh_frame.h"
#include "coldpatch/sites/arch/x86_64/state.h"
#include "coldpatch/sites/hooks.h"
#include "coldpatch/sites/sites.h"

#include <elfutils/libdw.h>

#define NO_BLOCK UINT32_MAX
#define NO_INSN	 (UINT32_MAX - 1)

struct block {
	uint64_t start;
	struct state *in;
	/* the state if the call in front of the block returned; NULL: no such call */
	struct state *behind;
	uint32_t range;
	bool queued;
	bool reached; /* reached in step 2 */
};

/* One unit of step 1. */
struct unit {
	struct cold_module *m;
	const struct cold_hooks *hooks;
	struct cold_sites *sites;
	ZydisDecoder decoder;
	/* i386: gives the stack pointer behind a call; NULL: no unwind tables */
	Dwarf_CFI *cfi;

	const uint32_t *members; /* the unit's ranges, ascending */
	size_t nmembers;
	size_t *bases; /* where each member starts in block_at */
	/* for each byte the block that starts there; NO_BLOCK; or NO_INSN inside of an
	 * instruction */
	uint32_t *block_at;
	size_t nbytes;
	struct cold_landing *landings;
	size_t nlandings;
	/* addresses of data that the code refers to, ascending: a table ends where other data
	 * starts */
	uint64_t *marks;
	size_t nmarks;

	struct block *blocks;
	size_t nblocks, room;
	uint32_t *queue; /* a stack; it holds a block at most once */
	size_t nqueue;

	/* what is the same at all unresolved indirect jumps; NULL: there was none */
	struct state *escape;
	/* the block that runs may be unreachable: it must not change the states of reached
	 * blocks */
	bool dead;
	bool recording;
	struct state now, other;
};

bool unit_is_block(uint32_t slot);
/* Returns the slot of address in block_at; NULL if address lies in no member. */
uint32_t *unit_slot(struct unit *unit, uint64_t address, uint32_t *ret_range);
/* Makes address the start of a block and sets *ret to it; NO_BLOCK if address lies in no member. If
 * a block already runs across address, it is cut and will run again. Returns 0, or -1: out of
 * memory. */
int unit_lead(struct unit *unit, uint64_t address, uint32_t *ret);
/* Carries state to the block at address. The block will run again if less is known there than
 * before. Returns 0 or -1. */
int unit_propagate(struct unit *unit, uint64_t address, const struct state *state);
/* Notes that an indirect jump of unknown target carries the present state away. Returns 0 or -1. */
int unit_escape(struct unit *unit);
/* Notes the present state after a call, for the block behind the call, in case nothing else reaches
 * that block. Returns 0 or -1. */
int unit_note_behind(struct unit *unit, uint64_t address);
void unit_release(struct unit *unit);

#endif
