/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks, their states and the queue. See flow_blocks.h.
 */
#include "coldpatch/sites/arch/x86_64/flow_blocks.h"

#include "common/error.h"

#include <string.h>

bool unit_is_block(uint32_t slot)
{
	return slot < NO_INSN;
}

uint32_t *unit_slot(struct unit *u, uint64_t address, uint32_t *ret_range)
{
	size_t lo = 0, hi = u->nmembers;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct cold_range *r = &u->m->ranges[u->members[mid]];

		if (address < r->start) {
			hi = mid;
		} else if (address >= r->end) {
			lo = mid + 1;
		} else {
			*ret_range = u->members[mid];
			return &u->block_at[u->bases[mid] + (address - r->start)];
		}
	}
	return NULL;
}

static int enqueue(struct unit *u, uint32_t block)
{
	if (u->blocks[block].queued || u->recording)
		return 0;
	u->blocks[block].queued = true;
	u->queue[u->nqueue++] = block;
	return 0;
}

int unit_lead(struct unit *u, uint64_t address, uint32_t *ret)
{
	uint32_t range, *slot = unit_slot(u, address, &range);

	*ret = NO_BLOCK;
	if (!slot)
		return 0;
	if (!unit_is_block(*slot)) {
		uint64_t start = u->m->ranges[range].start;

		if (u->nblocks == u->room) {
			size_t room = u->room ? 2 * u->room : 64;
			struct block *blocks = reallocarray(u->blocks, room, sizeof(*blocks));
			uint32_t *queue;

			if (!blocks)
				return ip_error("out of memory");
			u->blocks = blocks;
			queue = reallocarray(u->queue, room, sizeof(*queue));
			if (!queue)
				return ip_error("out of memory");
			u->queue = queue;
			u->room = room;
		}
		*slot = u->nblocks;
		u->blocks[u->nblocks++] = (struct block){.start = address, .range = range};
		for (uint64_t back = 1; back <= address - start; back++) {
			uint32_t before = slot[-(ptrdiff_t)back];

			if (!unit_is_block(before))
				continue;
			if (u->blocks[before].in && enqueue(u, before))
				return -1;
			break;
		}
	}
	*ret = *slot;
	return 0;
}

int unit_propagate(struct unit *u, uint64_t address, const struct state *state)
{
	uint32_t block, range, *slot;

	if (u->recording)
		return 0;
	slot = unit_slot(u, address, &range);
	if (u->dead && slot && !unit_is_block(*slot))
		return 0; /* data that looks like a jump */
	if (unit_lead(u, address, &block))
		return -1;
	if (block == NO_BLOCK)
		return 0;
	if (!u->blocks[block].in) {
		u->blocks[block].in = state_save(state);
		if (!u->blocks[block].in)
			return ip_error("out of memory");
		return enqueue(u, block);
	}
	if (u->dead && u->blocks[block].reached)
		return 0;
	return state_meet(u->blocks[block].in, state) ? enqueue(u, block) : 0;
}

int unit_escape(struct unit *u)
{
	if (u->recording)
		return 0;
	if (u->escape) {
		state_meet(u->escape, &u->now);
		return 0;
	}
	u->escape = state_save(&u->now);
	return u->escape ? 0 : ip_error("out of memory");
}

/* The compiler need not know that a function does not return: the code behind the call may still be
 * meant to run. */
int unit_note_behind(struct unit *u, uint64_t address)
{
	uint32_t block;

	if (u->recording)
		return 0;
	if (unit_lead(u, address, &block))
		return -1;
	if (block == NO_BLOCK)
		return 0;
	state_load(&u->other, &u->now);
	state_after_call(&u->other);
	state_forget_stack(&u->other);
	free(u->blocks[block].behind);
	u->blocks[block].behind = state_save(&u->other);
	return u->blocks[block].behind ? 0 : ip_error("out of memory");
}

void unit_release(struct unit *u)
{
	for (size_t i = 0; i < u->nblocks; i++) {
		free(u->blocks[i].in);
		free(u->blocks[i].behind);
	}
	free(u->blocks);
	free(u->queue);
	free(u->block_at);
	free(u->bases);
	free(u->landings);
	free(u->escape);
	memset(u, 0, offsetof(struct unit, now));
}
