/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sub-buffers: taking one from the pool, and going from one to the next (steps 6, 7 and A3 of
 * record.c; common/abi/ring.h describes their life). A thread that overwrites continues in the
 * oldest of its own (subbuf_recycle.h).
 *
 * Values from the area are limited to what the area has room for (struct ip_rt_private): the
 * position of a slot may name a sub-buffer that does not exist.
 *
 * A handler may come at any step and do the same. So cur is changed by compare-and-exchange only.
 * If the exchange fails, the hook gives back the sub-buffer that it has taken.
 */
#include "common/trace/trace_format.h"
#include "runtime/arch/cpu.h"
#include "runtime/ring.h"
#include "runtime/rt.h"

#define PAD_WORD 8ull /* event id 0, not zero: filled, but no event */

/* The number of sub-buffers in the pool. */
static uint32_t pool_size(void)
{
	uint32_t n = *(volatile uint32_t *)&rt_header->nsubbufs, most = rt_nsubbufs();

	return n < most ? n : most;
}

static int64_t take_subbuf(void)
{
	uint32_t n = pool_size();
	uint32_t start = *(volatile uint32_t *)&rt_header->hint;

	if (__atomic_load_n(&rt_header->nfree, __ATOMIC_RELAXED) <= 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = start + i < n ? start + i : (start + i) % n;
		uint32_t expected = IP_SUBBUF_FREE;

		if (rt_subbufs[k].state == IP_SUBBUF_FREE &&
		    __atomic_compare_exchange_n(&rt_subbufs[k].state, &expected, IP_SUBBUF_OWNED, 0,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
			rt_header->hint = k + 1;
			__atomic_fetch_sub(&rt_header->nfree, 1, __ATOMIC_RELAXED);
			return k;
		}
	}
	return -1;
}

/* Gives back a sub-buffer that was taken and not used. */
static void put_subbuf_back(int64_t taken)
{
	rt_subbufs[taken].slot = IP_NO_SLOT;
	__atomic_store_n(&rt_subbufs[taken].state, IP_SUBBUF_FREE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&rt_header->nfree, 1, __ATOMIC_RELAXED);
}

#include "runtime/subbuf_recycle.h"

int rt_change_subbuf(struct ip_slot *slot, uint64_t cur, int outermost)
{
	uint64_t index = SUBBUF(cur), position = POSITION(cur), left;
	int64_t taken;

	if (index != IP_NO_SUBBUF && index >= rt_nsubbufs()) {
		cpu_cmpxchg_local(&slot->cur, cur,
				  cur_of_none(slot, position + IP_SUBBUF_WORDS - 1));
		return 1;
	}
	if (index != IP_NO_SUBBUF) {
		uint64_t end = (position + IP_SUBBUF_WORDS - 1) & ~(uint64_t)(IP_SUBBUF_WORDS - 1);

		slot->leaving = index + 1;
		cpu_store_order();
		if (!cpu_cmpxchg_local(&slot->cur, cur, cur_of_none(slot, end)))
			return 1;
		cpu_add_local16(&rt_subbufs[index].surplus, end - position);
		for (; position < end; position++)
			cpu_store_word(word_at(CUR(index, position)), PAD_WORD);
		if (outermost)
			__atomic_store_n(&rt_subbufs[index].state, IP_SUBBUF_FULL,
					 __ATOMIC_RELEASE);
		cur = cur_of_none(slot, end);
		position = POSITION(cur);
	}
	taken = slot->modes & IP_MODE_OVERWRITE
			? take_or_recycle(slot, position / IP_SUBBUF_WORDS, outermost)
			: take_subbuf();
	if (taken < 0 && cur != cur_of_none(slot, position)) { /* A3 */
		cpu_cmpxchg_local(&slot->cur, cur, cur_of_none(slot, position));
		return 1;
	}
	if (taken < 0)
		return *(volatile uint64_t *)&slot->cur != cur; /* a handler may have found one */
	rt_subbufs[taken].ordinal = position / IP_SUBBUF_WORDS;
	rt_subbufs[taken].lost = slot->lost;
	rt_subbufs[taken].suspect = 0;
	rt_subbufs[taken].surplus = 0;
	cpu_store_order(); /* the collector looks at the rest only after slot is set */
	rt_subbufs[taken].slot = slot - rt_slots;
	if (!cpu_cmpxchg_local(&slot->cur, cur,
			       CUR(taken, (position & ~(uint64_t)(IP_SUBBUF_WORDS - 1)) + 1))) {
		/* a handler took one in between */
		put_subbuf_back(taken);
	} else {
		left = cpu_load_word(&slot->leaving) - 1;
		if (left < rt_nsubbufs())
			rt_subbufs[left].next = taken;
	}
	return 1;
}

uint32_t rt_take_memory(void)
{
	int64_t taken = take_subbuf();

	if (taken < 0)
		return 0;
	rt_subbufs[taken].slot = IP_NO_SLOT;
	return taken + 1;
}

void rt_give_memory(uint32_t taken)
{
	put_subbuf_back(taken - 1);
}

void *rt_memory(uint32_t taken)
{
	return taken && taken <= rt_nsubbufs() ? rt_data + (uint64_t)(taken - 1) * IP_SUBBUF_SIZE
					       : NULL;
}
