/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes back from the end of a wait for a lock, from holder to holder.
 */
#include "analysis/wait/locks/lock_holder.h"

#include <stddef.h>

#include "analysis/wait/wait_object.h"

#define HOLDERS_MOST 256u /* of one wait: what is before belongs to the last of them */
#define LOOKED_AT    256u /* spans of a holder between its waking and its wait for the lock */

/* The last wait by which a thread got the lock that it unlocked by a waking, and which ended after
 * a time; NULL: none. The waker's futex(2) names the word in its own memory, as its waits do. */
static const struct ip_thread_wait *got_it_by(const struct ip_thread_states *holder,
					      const struct ip_thread_waking *waking, uint64_t from)
{
	const size_t n = ip_states_span_at(holder, waking->tsc);

	if (!waking->word || n == holder->nspans)
		return NULL;
	for (size_t i = n; i-- > 0 && n - i <= LOOKED_AT && holder->spans[i + 1].from > from;) {
		const struct ip_thread_wait *wait;

		if (holder->spans[i].state != IP_THREAD_BLOCKED)
			continue;
		wait = &holder->waits[holder->spans[i].wait];
		if (ip_wait_is_lock(&wait->call) && wait->call.arguments[0] == waking->word)
			return wait;
	}
	return NULL;
}

static const struct ip_thread_states *waker_of(const struct ip_states *states,
					       const struct ip_thread_waking *waking)
{
	return waking->tsc && !waking->context && waking->waker
		       ? ip_states_find(states, waking->waker, waking->tsc)
		       : NULL;
}

int ip_lock_holders(const struct ip_states *states, const struct ip_thread_wait *wait,
		    uint64_t from, uint64_t to, ip_lock_holder_fn *visit, void *context)
{
	const struct ip_thread_states *holder = waker_of(states, &wait->waking);

	for (unsigned i = 0; holder && i < HOLDERS_MOST && from < to; i++) {
		const struct ip_thread_wait *before = got_it_by(holder, &wait->waking, from);
		const struct ip_thread_states *next = NULL;
		int ret;

		/* from its last waking: a wait of one call may be woken more than once */
		if (before) {
			before = &holder->waits[before->last];
			next = waker_of(states, &before->waking);
		}
		if (!next || before->waking.tsc >= wait->waking.tsc)
			break;
		if (before->waking.tsc < to) {
			const uint64_t got = before->waking.tsc > from ? before->waking.tsc : from;

			ret = visit(context, wait, holder, got, to);
			if (ret)
				return ret;
			to = got;
		}
		wait = before;
		holder = next;
	}
	return from < to ? visit(context, wait, holder, from, to) : 0;
}
