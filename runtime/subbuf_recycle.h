/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that overwrites. In sessions with IP_MODE_OVERWRITE a full ring continues in the oldest
 * of its own sub-buffers. Part of subbufs.c. record.c has the protocol of records; test/model
 * explores both, by these steps.
 *
 *   O1. Read the tail. The thread's sub-buffers lie between the oldest ordinal that is kept and the
 *       ordinal to take. If there are none, give up.
 *   O2. Find the oldest one. It must be FULL. If this hook is the outermost hook, it may also be
 *       OWNED (left by a hook in a handler). Otherwise a hook below may still have to fill words of
 *       it: give up. (If the hook gives up and there is no other sub-buffer, it drops the event and
 *       counts it as lost.)
 *   O3. Compute the number of its events: all words minus its surplus. This number is final: no
 *       hook in flight has words in it.
 *   O4. Move the tail on, over the ordinal and over the events in one step, by a locked
 *       compare-and-exchange. If a handler of this thread or the collector was faster, start again.
 *       From here on the sub-buffer is this hook's alone.
 *   O5. Set its slot to IP_NO_SLOT. A reader that is copying it sees that afterwards, and leaves it
 *       out.
 *   O6. If it is suspect (record.c, step 7), leave it to the collector (LEFT), and start again.
 *       Otherwise set it to OWNED, and zero it.
 *
 * A thread takes a free sub-buffer instead in two cases: while it has fewer than two; and while it
 * has less than its share and there are more free sub-buffers than are reserved for new threads.
 */
#ifndef RT_SUBBUF_RECYCLE_H
#define RT_SUBBUF_RECYCLE_H

#include "common/abi/ring.h"

#define RECYCLE_TRIES 64

static int64_t take_subbuf(void);

/* Whether words of the sub-buffer were reserved and filled, or padded. A hook writes slot and
 * ordinal into a sub-buffer before it puts the sub-buffer into cur. A handler may come first, and
 * then leave the hook by longjmp. The sub-buffer then has no such words, and another one has the
 * same ordinal. */
static int is_used(int64_t k)
{
	const uint64_t *words = (const uint64_t *)(rt_data + k * IP_SUBBUF_SIZE);

	return words[1] || words[IP_SUBBUF_WORDS - 1];
}

/* The slot's sub-buffer with that ordinal; -1: there is none. */
static int64_t find_subbuf(const struct ip_slot *slot, uint64_t ordinal)
{
	uint32_t me = slot - rt_slots, n = pool_size(),
		 hint = *(const volatile uint32_t *)&slot->oldest;
	int64_t found = -1;

	if (hint < n && rt_subbufs[hint].slot == me && rt_subbufs[hint].ordinal == ordinal &&
	    is_used(hint))
		return hint;
	for (uint32_t k = 0; k < n; k++) {
		if (rt_subbufs[k].slot != me || rt_subbufs[k].ordinal != ordinal)
			continue;
		found = k;
		if (is_used(k))
			break;
	}
	return found;
}

/* Empties and returns the oldest sub-buffer of the slot. The slot has the sub-buffers up to
 * `ordinal`, without it. -1: none can be had. */
static int64_t recycle_subbuf(struct ip_slot *slot, uint64_t ordinal, int outermost)
{
	for (unsigned tries = 0; tries < RECYCLE_TRIES; tries++) {
		/* O1 */
		uint64_t tail = *(volatile uint64_t *)&slot->tail;
		uint64_t oldest = ordinal - IP_TAIL_DISTANCE(tail, ordinal);
		uint32_t state, next;
		struct ip_subbuf *b;
		int64_t k;

		if (oldest == ordinal)
			return -1;
		/* O2 */
		k = find_subbuf(slot, oldest);
		if (k < 0 && *(volatile uint64_t *)&slot->tail == tail)
			return -1;
		if (k < 0)
			continue;
		b = &rt_subbufs[k];
		state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
		if (state != IP_SUBBUF_FULL && !(state == IP_SUBBUF_OWNED && outermost))
			return -1;
		next = b->next;
		/* O3, O4 */
		if (!cpu_cmpxchg_shared(&slot->tail, tail,
					IP_TAIL(oldest + 1, IP_TAIL_EVENTS(tail) + IP_SUBBUF_ROOM -
								    b->surplus)))
			continue;
		slot->oldest = next;
		/* O5 */
		*(volatile uint32_t *)&b->slot = IP_NO_SLOT;
		cpu_store_order();
		/* O6 */
		if (b->suspect) {
			__atomic_store_n(&b->state, IP_SUBBUF_LEFT, __ATOMIC_RELEASE);
			continue;
		}
		__atomic_store_n(&b->state, IP_SUBBUF_OWNED, __ATOMIC_RELEASE);
		cpu_zero(rt_data + k * IP_SUBBUF_SIZE, IP_SUBBUF_SIZE);
		return k;
	}
	return -1;
}

static int64_t take_or_recycle(struct ip_slot *slot, uint64_t ordinal, int outermost)
{
	uint32_t kept = IP_TAIL_DISTANCE(*(volatile uint64_t *)&slot->tail, ordinal);
	int64_t k = -1;

	if (kept >= 2 &&
	    (kept >= rt_header->share || rt_header->nfree <= (int32_t)rt_header->reserve))
		k = recycle_subbuf(slot, ordinal, outermost);
	if (k < 0)
		k = take_subbuf();
	return k < 0 ? recycle_subbuf(slot, ordinal, outermost) : k;
}

#endif
