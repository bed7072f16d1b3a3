/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why an interval of a thread took so long, in a few links: what it did for most of the time; if
 * that was to wait for something which another thread ended, what that one did for most of the
 * longest such wait; and so on. critical_path.h has the whole of it.
 */
#ifndef IP_WAIT_CHAIN_H
#define IP_WAIT_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/thread_states.h"
#include "analysis/wait/wait_object.h"

#define IP_CHAIN_MOST 6u /* links: more are no answer in a line */

struct ip_chain_link {
	const struct ip_thread_states *thread;
	uint64_t from, to;	      /* the interval that is explained, TSC */
	uint64_t ticks, count;	      /* for how long the thread did that, and how often */
	uint64_t at, longest;	      /* when it did that for longest, and for how long */
	uint8_t state;		      /* enum ip_thread_state */
	struct ip_wait_object object; /* BLOCKED */
	/* BLOCKED: who ended the longest wait; NULL: no thread that is known */
	const struct ip_thread_states *ender;
	bool is_lock; /* and had it */
};

struct ip_wait_chain {
	struct ip_chain_link links[IP_CHAIN_MOST];
	size_t n;
};

void ip_wait_chain_find(const struct ip_states *states, const struct ip_descriptors *descriptors,
			const struct ip_thread_owners *owners,
			const struct ip_thread_states *thread, uint64_t from, uint64_t to,
			struct ip_wait_chain *ret);

#endif
