/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For how long something else had the CPU of a thread that could have run, up to a time: another
 * thread, or an interrupt. What a call took without that is what its code took: whom that hits is
 * chance.
 */
#ifndef IP_PREEMPTION_H
#define IP_PREEMPTION_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/interrupts.h"
#include "analysis/wait/thread_states.h"

struct ip_preemption {
	const struct ip_thread_states *thread; /* NULL: nothing is known */
	uint64_t *before;		       /* by span: ticks before it */
	uint64_t end;			       /* behind it nothing is known */
	size_t at;			       /* the span that was found last */
	const struct ip_interrupt *interrupts; /* of the thread */
	size_t ninterrupts, next;	       /* next: the first one behind the last time */
};

/* Adds up. *ret is cleared by the caller in any case. thread may be NULL. interrupts: of all
 * threads; they must outlive it. Returns 0, or -1 with an error. */
int ip_preemption_begin(struct ip_preemption *ret, const struct ip_states *states,
			const struct ip_interrupts *interrupts,
			const struct ip_thread_states *thread);
void ip_preemption_clear(struct ip_preemption *preemption);

/* The ticks up to a time. Times that follow one another are found at once. */
uint64_t ip_preemption_until(struct ip_preemption *preemption, uint64_t tsc);

#endif
