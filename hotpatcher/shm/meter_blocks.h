/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of meters (common/abi/meters.h): where they lie in the area, and what lies where in them.
 *
 * Room. A block has a head, frames where durations are measured, and room for what functions count
 * in. What is placed there has the same offset in each block, for the rest of the session. When the
 * room is used up the blocks are halved:
 *
 *   1. The header's nmeters becomes K, half of what it was: threads that come take lower ones. (Low
 *      ones are handed out first anyway.)
 *   2. All blocks from K on must be free: each is made a PART, so that nobody takes it. Where one
 *      is not, back to 1: there is no more room.
 *   3. Block i + K, and all that was block i + K's, is more room of block i, K * size behind what
 *      it had.
 *
 * The memory stays what it was: fewer threads can have blocks, each twice as large. Numbers of
 * blocks are powers of two, so that parts of block i are those whose number is i modulo nmeters.
 *
 * Late hooks. One that a signal handler holds up may go on in the next session and write into what
 * was its block (runtime/meters.c, G1 to G4 tell when, and how its slot shows it). The blocks of a
 * session that begins lie behind all such memory, and its sub-buffers on top of it are not handed
 * out. Where the user's payload was called, the shared block, in which the hook reads about it,
 * counts as its own. That holds for this one session, like the slots that are out of use (area.c).
 */
#ifndef IP_METER_BLOCKS_H
#define IP_METER_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/abi/ring.h"

#define IP_BLOCKS_ROOMS 1024u /* ten times halved */

struct ip_area;

struct ip_blocks {
	uint32_t all,
		/* at the beginning; that are handed out now; both with the shared one. 0: the
		 * session has none */
		n;
	uint32_t depth;	   /* frames */
	uint64_t at, size; /* of block 0 in the memfd; of each */
	struct {
		uint32_t low, high; /* free, from the block's beginning */
	} rooms[IP_BLOCKS_ROOMS];
	uint32_t nrooms;
};

/* Where the blocks of a session lie that needs so many bytes of room in each: behind sub-buffers
 * that get the rest of memory, and behind late memory. *ret_left: what that rest is. -1 with an
 * error: they would take more than half of memory. */
int ip_blocks_divide(struct ip_area *area, uint64_t room, bool frames, uint64_t memory,
		     uint64_t *ret_left);

/* Whether a hook of the session before may still be at work for the slot. */
bool ip_blocks_is_late(const struct ip_slot *slot);
/* Calls visit for each piece of memory that a late hook may write to, or rely on; before the slots
 * are forgotten. */
void ip_blocks_each_late(const struct ip_area *area,
			 void (*visit)(void *data, uint64_t from, uint64_t to), void *data);

/* Bytes in each block, all zero: a multiple of 8; what is a multiple of 128 is aligned to that. The
 * offset; 0: there is no room, nor can it be made. */
uint32_t ip_blocks_place(struct ip_area *area, uint32_t bytes);

/* The block that offset is in, of block i; *ret_inside: where. */
uint32_t ip_blocks_part(const struct ip_area *area, uint32_t i, uint32_t offset,
			uint32_t *ret_inside);

#endif
