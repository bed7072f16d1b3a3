/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's ring, inside of the runtime: the meaning of its position (common/abi/ring.h), and how
 * it takes its sub-buffers (subbufs.c).
 */
#ifndef RT_RING_H
#define RT_RING_H

#include "runtime/rt.h"

#define POSITION(cur)	 ((cur)&IP_POSITION_MASK)
#define SUBBUF(cur)	 ((cur) >> IP_POSITION_BITS)
#define WORD_INDEX(cur)	 ((cur) & (IP_SUBBUF_WORDS - 1))
#define CUR(subbuf, pos) ((uint64_t)(subbuf) << IP_POSITION_BITS | (pos))

static inline int is_coarse(const struct ip_slot *slot)
{
	return rt_unlikely(slot->modes & IP_MODE_COARSE);
}

static inline int has_room(const struct ip_slot *slot, uint64_t cur, uint64_t words)
{
	return WORD_INDEX(cur) != 0 && SUBBUF(cur) < rt_nsubbufs() &&
	       WORD_INDEX(cur) + words <= IP_SUBBUF_WORDS - (is_coarse(slot) ? IP_SUBBUF_SPARE : 0);
}

/* The value of cur without a sub-buffer. Its position has the ordinal that the next sub-buffer will
 * have. */
static inline uint64_t cur_of_none(const struct ip_slot *slot, uint64_t position)
{
	return CUR(IP_NO_SUBBUF, (position & ~(uint64_t)(IP_SUBBUF_WORDS - 1)) +
					 (is_coarse(slot) ? IP_SUBBUF_WORDS - IP_SUBBUF_SPARE : 0));
}

static inline uint64_t *word_at(uint64_t cur)
{
	return (uint64_t *)(rt_data + SUBBUF(cur) * IP_SUBBUF_SIZE) + WORD_INDEX(cur);
}

/* Leaves the sub-buffer in cur, if there is one, and takes a new one. Returns 1 if the caller must
 * read slot->cur again; 0 if there is no sub-buffer. outermost: no hook below may still have to
 * fill words. */
int rt_change_subbuf(struct ip_slot *slot, uint64_t cur, int outermost);

/* Takes a sub-buffer of the pool for another use. The collector does not look at it. Returns its
 * index + 1; 0: there is none. */
uint32_t rt_take_memory(void);
/* Gives back a sub-buffer of rt_take_memory() that was not used. */
void rt_give_memory(uint32_t taken);
/* The memory of a sub-buffer of rt_take_memory(); NULL: it does not exist. */
void *rt_memory(uint32_t taken);

#endif
