/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up for how long a thread waited for CPUs, and for how long it was interrupted.
 */
#include "analysis/darc/preemption.h"

#include <stdlib.h>

#include "common/error.h"

int ip_preemption_begin(struct ip_preemption *ret, const struct ip_states *states,
			const struct ip_interrupts *interrupts, const struct ip_thread_states *t)
{
	*ret = (struct ip_preemption){0};
	if (!t || !t->nspans)
		return 0;
	ret->before = calloc(t->nspans, sizeof(*ret->before));
	if (!ret->before)
		return ip_error("out of memory");
	ret->thread = t;
	ret->end = states->end;
	ret->interrupts = ip_interrupts_of(interrupts, t->tid, &ret->ninterrupts);
	for (size_t i = 1; i < t->nspans; i++) {
		const struct ip_thread_span *s = &t->spans[i - 1];

		ret->before[i] = ret->before[i - 1] +
				 (s->state == IP_THREAD_RUNNABLE ? t->spans[i].from - s->from : 0);
	}
	return 0;
}

void ip_preemption_clear(struct ip_preemption *p)
{
	free(p->before);
	*p = (struct ip_preemption){0};
}

/* The ticks in interrupts up to a time. */
static uint64_t interrupted_until(struct ip_preemption *p, uint64_t tsc)
{
	const struct ip_interrupt *all = p->interrupts, *i;

	if (!p->ninterrupts)
		return 0;
	for (int k = 0; k < 4 && p->next < p->ninterrupts && all[p->next].to <= tsc; k++)
		p->next++;
	if ((p->next < p->ninterrupts && all[p->next].to <= tsc) ||
	    (p->next && all[p->next - 1].to > tsc))
		p->next = ip_interrupts_behind(all, p->ninterrupts, tsc);
	if (p->next == p->ninterrupts) {
		i = &all[p->next - 1];
		return i->before + (i->to - i->from);
	}
	i = &all[p->next];
	return i->before + (tsc > i->from ? tsc - i->from : 0);
}

/* The ticks in which it waited for a CPU. */
static uint64_t waited_until(struct ip_preemption *p, uint64_t tsc)
{
	const struct ip_thread_states *t = p->thread;
	const struct ip_thread_span *s;

	if (tsc < t->spans[0].from)
		return 0;
	for (int i = 0; i < 4 && p->at + 1 < t->nspans && t->spans[p->at + 1].from <= tsc; i++)
		p->at++;
	if (t->spans[p->at].from > tsc ||
	    (p->at + 1 < t->nspans && t->spans[p->at + 1].from <= tsc)) {
		p->at = ip_states_span_at(t, tsc);
		if (p->at == t->nspans) { /* the end is before the first span */
			p->at = 0;
			return 0;
		}
	}
	s = &t->spans[p->at];
	return p->before[p->at] +
	       (s->state == IP_THREAD_RUNNABLE && tsc > s->from ? tsc - s->from : 0);
}

uint64_t ip_preemption_until(struct ip_preemption *p, uint64_t tsc)
{
	if (!p->thread)
		return 0;
	tsc = tsc < p->end ? tsc : p->end;
	return waited_until(p, tsc) + interrupted_until(p, tsc);
}
