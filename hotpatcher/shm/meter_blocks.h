/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of meters (common/abi/meters.h): where the blocks lie in the area, and where each meter
 * lies in its block.
 *
 * Room. A block has a head, then frames if durations are measured, then room for what functions
 * count in. A meter that is placed there has the same offset in each block, for the rest of the
 * session. When the room is used up, the blocks are halved:
 *
 *   1. The header's nmeters becomes K, half of what it was. From then on new threads take blocks
 *      below K. (Low blocks are handed out first anyway.)
 *   2. All blocks from K on must be free: each is made a PART, so that no thread takes it. If one
 *      of them is not free, step 1 is undone: there is no more room.
 *   3. Block i + K, and everything that belonged to block i + K, becomes more room of block i, K *
 *      size behind the room that block i had.
 *
 * The memory keeps its size: fewer threads can have blocks, and each block is twice as large.
 * Numbers of blocks are powers of two, so the parts of block i are the blocks whose number is i
 * modulo nmeters.
 *
 * Late hooks. A hook that a signal handler holds up may go on in the next session, and write into
 * the block that it had (runtime/meters.c, G1 to G4 tell when, and how its slot shows it). The
 * blocks of a new session lie behind all such memory, and sub-buffers of the new session that
 * overlap it are not handed out. If the user's payload was called, or FPerf ran, the hook reads
 * about it in the shared block. Then the shared block counts as the hook's own. All this holds for
 * one session only, like the slots that are out of use (late_slots.h).
 */
#ifndef IP_METER_BLOCKS_H
#define IP_METER_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/ring.h"

#define IP_BLOCKS_ROOMS 1024u /* enough for halving ten times */

struct ip_area;

struct ip_blocks {
	/* For the next session: most blocks that it is to have, a power of two; 0: as many as there
	 * is memory for. alone: it writes no events, so there are as few
	 * sub-buffers as there can be. */
	uint32_t most;
	bool alone;
	/* numbers of blocks, the shared one included: at the session's beginning; handed out now.
	 * 0: the session has none */
	uint32_t all, n;
	uint32_t depth;	   /* frames in each block */
	uint64_t at, size; /* block 0's offset in the memfd; bytes of each block */
	struct {
		uint32_t low, high; /* free bytes: offsets from the block's beginning */
	} rooms[IP_BLOCKS_ROOMS];
	uint32_t nrooms;
};

/* Decides where the blocks of a session lie that needs room bytes in each. They lie behind the
 * sub-buffers, which get the rest of memory, or IP_SUBBUFS_LEAST, and behind late memory.
 * *ret_left: the bytes of sub-buffers. Returns
 * -1 with an error: the blocks would take more than half of memory. */
int ip_blocks_divide(struct ip_area *area, uint64_t room, bool frames, uint64_t memory,
		     uint64_t *ret_left);

/* Returns whether a hook of the session before may still run with the slot. */
bool ip_blocks_is_late(const struct ip_slot *slot);
/* Calls visit for each range of memory that a late hook may write to, or rely on. It is called
 * before the slots are reset. */
void ip_blocks_each_late(const struct ip_area *area,
			 void (*visit)(void *data, uint64_t from, uint64_t to), void *data);

/* Reserves bytes in each block, all zero. bytes is a multiple of 8; a multiple of 128 is aligned to
 * 128. Returns the offset; 0: there is no room, and none can be made. */
uint32_t ip_blocks_place(struct ip_area *area, uint32_t bytes);

/* Returns the number of the block in which offset of block i really lies; *ret_inside: the offset
 * there. */
uint32_t ip_blocks_part(const struct ip_area *area, uint32_t i, uint32_t offset,
			uint32_t *ret_inside);

#endif
