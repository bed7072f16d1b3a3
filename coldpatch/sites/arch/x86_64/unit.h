/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One unit of the constant propagation in flow.c: a function and its cold part, cut into blocks,
 * with what is known at the start of each and the queue of those that are to be run.
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
	/* what would hold if the call in front of it came back; NULL: there is none */
	struct state *behind;
	uint32_t range;
	bool queued;
	bool reached; /* in step 2 */
};

/* One unit of step 1. */
struct unit {
	struct cold_module *m;
	const struct cold_hooks *hooks;
	struct cold_sites *sites;
	ZydisDecoder decoder;
	/* i386: says where the stack pointer stands behind a call; NULL: no unwind tables */
	Dwarf_CFI *cfi;

	const uint32_t *members; /* ranges, ascending */
	size_t nmembers;
	size_t *bases;	    /* of each member in block_at */
	uint32_t *block_at; /* by byte: the block that starts there; NO_BLOCK; NO_INSN inside of an
			       instruction */
	size_t nbytes;
	struct cold_landing *landings;
	size_t nlandings;
	/* addresses of data that the code names, ascending: a table ends where something else
	 * starts */
	uint64_t *marks;
	size_t nmarks;

	struct block *blocks;
	size_t nblocks, room;
	uint32_t *queue; /* a stack; a block is in it once */
	size_t nqueue;

	/* what all unresolved indirect jumps agree on; NULL: there was none */
	struct state *escape;
	bool dead; /* what runs is not known to be reached by anything: it must not spoil what is */
	bool recording;
	struct state now, other;
};

bool unit_is_block(uint32_t slot);
/* Where block_at tells of address; NULL where it lies in no member. */
uint32_t *unit_slot(struct unit *unit, uint64_t address, uint32_t *ret_range);
/* Makes address the start of a block: *ret, NO_BLOCK where it lies in no member. A block that
 * already runs across it is cut and will run again. 0, or -1: out of memory. */
int unit_lead(struct unit *unit, uint64_t address, uint32_t *ret);
/* Carries state to address; the block there will run again where that tells less than before. 0 or
 * -1. */
int unit_propagate(struct unit *unit, uint64_t address, const struct state *state);
/* Notes the present state as one of those that an indirect jump of unknown target carries away. 0
 * or -1. */
int unit_escape(struct unit *unit);
/* The present state after a call, for the block behind it that nothing else may reach. 0 or -1. */
int unit_note_behind(struct unit *unit, uint64_t address);
void unit_release(struct unit *unit);

#endif
