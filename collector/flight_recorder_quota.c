/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares the memory out among the threads of a session that overwrites. The first threads take what
 * is free. Threads that come later need some of it. The shares follow from a level: a thread that
 * needs less than the level keeps what it has, and all other threads get the level.
 *
 *   1. What each thread needs: if its oldest sub-buffer has been overwritten since the last look,
 *      it needs all there is; otherwise it needs what it has.
 *   2. The level. It is chosen so that all memory is given out except what is held back for new
 *      threads.
 *   3. From now on threads take no more than the level (share). If a thread that needs more has
 *      less than the level, the oldest sub-buffers of threads above the level go back into the
 *      pool. They are taken by the protocol of common/abi/ring.h: a sub-buffer belongs to the side
 *      that advances the tail past it.
 *
 * A hook in a signal handler leaves its full sub-buffer OWNED. Here such a sub-buffer becomes FULL
 * as soon as this is safe. Otherwise a thread that seems to be in a hook for ever, because a
 * handler has left the hook by longjmp, could not overwrite it.
 */
#include <stdlib.h>

#include "collector/collector_private.h"
#include "common/cleanup.h"

/* at most one in so many sub-buffers is given back in one call */
#define AT_ONCE 8

struct demand {
	uint32_t slot, has;
	bool more;
};

static uint32_t has_now(const struct ip_slot *slot)
{
	uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE);
	uint64_t tail = __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE);
	uint64_t ordinal = (cur & IP_POSITION_MASK) / IP_SUBBUF_WORDS;

	/* if the last sub-buffer is filled to the last word, the position is already that of the
	 * next one */
	return IP_TAIL_DISTANCE(tail, ordinal) + (cur & (IP_SUBBUF_WORDS - 1) ? 1 : 0);
}

/* 2. Returns the highest level at which all threads together get at most budget. */
static uint32_t level_of(const struct demand *demands, size_t n, uint32_t budget)
{
	uint32_t low = 1, high = budget > 1 ? budget : 1;

	while (low < high) {
		uint32_t level = low + (high - low + 1) / 2;
		uint64_t sum = 0;

		for (size_t i = 0; i < n; i++)
			sum += demands[i].more || demands[i].has > level ? level : demands[i].has;
		if (sum <= budget)
			low = level;
		else
			high = level - 1;
	}
	return low;
}

/* Takes the sub-buffer if it is the oldest of its slot. Returns false if the thread was faster, or
 * if the sub-buffer may not be taken. */
static bool take_oldest(struct ip_collector *c, const struct ip_ready *r)
{
	struct ip_subbuf *b = &c->area->subbufs[r->subbuf];
	struct ip_slot *slot = &c->area->slots[r->slot];
	uint64_t tail = __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE);

	if (IP_TAIL_DISTANCE(tail, r->ordinal) ||
	    __atomic_load_n(&b->state, __ATOMIC_ACQUIRE) != IP_SUBBUF_FULL)
		return false;
	if (!__atomic_compare_exchange_n(
		    &slot->tail, &tail,
		    IP_TAIL(r->ordinal + 1, IP_TAIL_EVENTS(tail) + IP_SUBBUF_ROOM - b->surplus),
		    false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	ip_drain_give_back(c, r->subbuf);
	return true;
}

/* Sets a sub-buffer FULL if its thread has left it for good. */
static void hand_over(struct ip_collector *c, const struct ip_ready *r)
{
	uint32_t owned = IP_SUBBUF_OWNED;

	if (!ip_drain_has_been_left(c, r, false))
		return;
	/* Check the descriptor again after all words were read. The thread may have recycled the
	 * sub-buffer meanwhile: it then zeroes it while the descriptor names no slot. */
	if (ip_drain_never_used(c, r) && ip_drain_still_is(c, r))
		ip_drain_give_back(c, r->subbuf);
	else
		__atomic_compare_exchange_n(&c->area->subbufs[r->subbuf].state, &owned,
					    IP_SUBBUF_FULL, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
}

static int by_amount(const void *a, const void *b)
{
	const struct demand *x = a, *y = b;

	return x->has > y->has ? -1 : x->has < y->has;
}

/* 3. Gives back what the slots have above the level. The slots that have most come first. */
static void even_out(struct ip_collector *c, struct demand *demands, size_t n, uint32_t level,
		     uint32_t used)
{
	uint32_t budget = c->area->nsubbufs / AT_ONCE + 1;
	_cleanup_free_ uint32_t *excess = calloc(used + 1, sizeof(*excess));
	size_t nready = 0;

	if (!excess)
		return;
	qsort(demands, n, sizeof(*demands), by_amount);
	for (size_t i = 0; i < n && budget && demands[i].has > level; i++) {
		uint32_t part = demands[i].has - level;

		excess[demands[i].slot] = part < budget ? part : budget;
		budget -= excess[demands[i].slot];
	}
	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		struct ip_ready r = {__atomic_load_n(&b->slot, __ATOMIC_RELAXED), i,
				     __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED)};

		if (r.slot < used && excess[r.slot])
			c->ready[nready++] = r;
	}
	qsort(c->ready, nready, sizeof(*c->ready), ip_drain_by_order);
	for (size_t i = 0; i < nready; i++)
		if (excess[c->ready[i].slot] && take_oldest(c, &c->ready[i]))
			excess[c->ready[i].slot]--;
}

void ip_flight_recorder_share(struct ip_collector *c)
{
	struct ip_area_header *h = c->area->header;
	uint32_t used = slots_used(c), level, reserve = c->area->nsubbufs / 16;
	_cleanup_free_ struct demand *demands = calloc(used + 1, sizeof(*demands));
	bool hungry = false;
	size_t n = 0;

	if (!demands)
		return;
	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		struct ip_ready r = {__atomic_load_n(&b->slot, __ATOMIC_RELAXED), i,
				     __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED)};
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);

		if (state == IP_SUBBUF_OWNED && r.slot < used && is_claimed(c, r.slot))
			hand_over(c, &r);
		else if (state == IP_SUBBUF_LEFT && !c->suspended[i])
			ip_drain_give_back(c, i);
	}
	/* 1. */
	for (uint32_t i = 0; i < used; i++) {
		uint64_t tail;

		if (!is_claimed(c, i))
			continue;
		tail = __atomic_load_n(&c->area->slots[i].tail, __ATOMIC_ACQUIRE);
		/* the collector may also have advanced the tail of an idle thread */
		demands[n++] =
			(struct demand){i, has_now(&c->area->slots[i]), tail != c->slots[i].tail};
	}
	if (!n)
		return;
	level = level_of(demands, n, c->area->nsubbufs - reserve);
	__atomic_store_n(&h->share, level, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		hungry |= demands[i].more && demands[i].has + 1 < level;
	if (hungry ||
	    (reserve && __atomic_load_n(&h->nfree, __ATOMIC_RELAXED) < (int32_t)reserve / 2) ||
	    __atomic_load_n(&h->nfree, __ATOMIC_RELAXED) <= 0)
		even_out(c, demands, n, level, used);
	for (uint32_t i = 0; i < used; i++)
		c->slots[i].tail = is_claimed(c, i) ? __atomic_load_n(&c->area->slots[i].tail,
								      __ATOMIC_ACQUIRE)
						    : 0;
}
