/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up, part by part, what a thread did.
 */
#include "analysis/darc/cause_parts.h"

#include "common/array.h"
#include "common/error.h"

/* So many parts of a cause are told apart: behind them only kinds are. */
#define PARTS_MOST 1024u

int ip_cause_parts_begin(struct ip_cause_parts *ret, struct ip_trace_reader *trace,
			 struct ip_trace_waits *waits)
{
	*ret = (struct ip_cause_parts){.waits = waits};
	if (ip_cpu_users_make(waits->states, &ret->users) < 0)
		return -1;
	ret->wakers = ip_waker_paths_read(trace, waits->states);
	return ret->wakers ? 0 : -1;
}

void ip_cause_parts_clear(struct ip_cause_parts *a)
{
	ip_cpu_users_clear(&a->users);
	ip_waker_paths_destroy(a->wakers);
}

void ip_cause_parts_run(struct ip_cause_parts *a, const struct ip_thread_packets *run)
{
	const struct ip_states *s = a->waits->states;

	a->pid = run->machine_pid;
	a->member = run->member;
	a->thread =
		ip_states_find(s, run->machine_tid, run->begin > s->begin ? run->begin : s->begin);
	a->interrupts =
		ip_interrupts_of(&a->waits->interrupts, (int32_t)run->machine_tid, &a->ninterrupts);
}

static bool same(const struct ip_cause_part *a, const struct ip_cause_part *b)
{
	return a->kind == b->kind && a->thread == b->thread && a->in == b->in &&
	       a->is_lock == b->is_lock && a->interrupt == b->interrupt && a->line == b->line &&
	       ((a->kind != IP_CAUSE_BLOCKED && a->kind != IP_CAUSE_FAULT) ||
		ip_wait_object_same(&a->object, &b->object));
}

/* The parts that the causes with these calls have are the same. */
static void add_part(struct ip_cause_parts *a, const struct ip_cause_part *like, uint64_t ticks)
{
	struct ip_cause_waits *to = a->target;
	struct ip_cause_part other;
	size_t i = 0;

	while (i < to->n && !same(&to->parts[i], like))
		i++;
	if (i == to->n && i >= PARTS_MOST) {
		other = (struct ip_cause_part){.kind = like->kind, .in = IP_NO_FUNCTION};
		other.object = (struct ip_wait_object){
			.kind = like->object.kind, .fd = -1, .call = IP_NO_CALL};
		like = &other;
		for (i = 0; i < to->n && !same(&to->parts[i], like);)
			i++;
	}
	if (i == to->n) {
		if (ip_array_grow(&to->parts, to->n, sizeof(*like)) < 0) {
			a->failed = true;
			return;
		}
		to->parts[to->n++] = *like;
	}
	*(a->reference ? &to->parts[i].reference_ticks : &to->parts[i].ticks) += ticks;
}

static int had_cpu(void *context, const struct ip_thread_states *thread, uint64_t ticks)
{
	struct ip_cause_parts *a = context;

	add_part(a,
		 &(struct ip_cause_part){
			 .kind = IP_CAUSE_PREEMPTED, .thread = thread, .in = IP_NO_FUNCTION},
		 ticks);
	return a->failed ? -1 : 0;
}

static void add_blocked(struct ip_cause_parts *a, const struct ip_thread_span *span, uint64_t ticks)
{
	const struct ip_thread_wait *waits = a->thread->waits, *wait = &waits[span->wait],
				    *last = &waits[wait->last];
	const struct ip_thread_waking *waking = &last->waking;
	struct ip_cause_part part = {.kind = IP_CAUSE_BLOCKED, .in = IP_NO_FUNCTION};

	ip_wait_object_of(wait, &a->waits->descriptors, a->pid, a->thread->tid, &part.object);
	ip_wait_object_in(&part.object, a->member);
	if (part.object.kind == IP_WAIT_FAULT) {
		/* that each is of another address is of no interest */
		part.kind = IP_CAUSE_FAULT;
		part.object.address = 0;
	}
	if (part.kind == IP_CAUSE_BLOCKED && waking->tsc && !waking->context && waking->waker) {
		const uint32_t node = ip_waker_paths_holder(a->wakers, last);

		part.thread = ip_states_find(a->waits->states, waking->waker, waking->tsc);
		part.is_lock = part.thread && ip_wait_is_lock(&wait->call);
		if (node)
			part.in = a->wakers->tree->nodes[node].function;
	}
	add_part(a, &part, ticks);
}

/* It had a CPU, but for the interrupts. */
static void add_running(struct ip_cause_parts *a, uint64_t from, uint64_t to)
{
	uint64_t ran = 0;

	for (size_t i = ip_interrupts_behind(a->interrupts, a->ninterrupts, from);
	     i < a->ninterrupts && a->interrupts[i].from < to && from < to; i++) {
		const struct ip_interrupt *one = &a->interrupts[i];
		const uint64_t end = one->to < to ? one->to : to;

		if (one->from > from) {
			ran += one->from - from;
			from = one->from;
		}
		if (end > from) {
			add_part(a,
				 &(struct ip_cause_part){.kind = IP_CAUSE_INTERRUPT,
							 .in = IP_NO_FUNCTION,
							 .interrupt = one->event,
							 .line = one->line},
				 end - from);
			from = end;
		}
	}
	if (ran + to - from)
		add_part(a, &(struct ip_cause_part){.kind = IP_CAUSE_SELF, .in = IP_NO_FUNCTION},
			 ran + to - from);
}

static void add_span(struct ip_cause_parts *a, const struct ip_thread_span *span, uint64_t from,
		     uint64_t to)
{
	struct ip_cause_part part = {.kind = IP_CAUSE_UNKNOWN, .in = IP_NO_FUNCTION};

	switch (span ? (enum ip_thread_state)span->state : IP_THREAD_UNKNOWN) {
	case IP_THREAD_RUNNABLE:
		ip_cpu_users_visit(&a->users, span->cpu, from, to, had_cpu, a);
		return;
	case IP_THREAD_BLOCKED:
		add_blocked(a, span, to - from);
		return;
	case IP_THREAD_RUNNING:
		add_running(a, from, to);
		return;
	default:
		break;
	}
	add_part(a, &part, to - from);
}

void ip_cause_parts_add(struct ip_cause_parts *a, struct ip_cause_waits *to, bool reference,
			uint64_t now, uint64_t ts)
{
	const struct ip_thread_states *t = a->thread;
	const uint64_t end = a->waits->states->end;
	size_t i = t ? ip_states_span_at(t, now) : 0;

	a->target = to;
	a->reference = reference;
	while (now < ts) {
		const bool before = !t || i >= t->nspans;
		const size_t next = before ? 0 : i + 1;
		uint64_t until = t && next < t->nspans && t->spans[next].from > now &&
						 t->spans[next].from < ts
					 ? t->spans[next].from
					 : ts;

		if (!before && now < end && until > end)
			until = end; /* behind it nothing is known */
		add_span(a, before || now >= end ? NULL : &t->spans[i], now, until);
		i = t && next < t->nspans && t->spans[next].from <= until ? next : i;
		now = until;
	}
}
