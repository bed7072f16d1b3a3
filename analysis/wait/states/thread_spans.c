/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What threads do, by the events of the scheduler: they run, are runnable, or blocked.
 */
#include <string.h>
#include <sys/mman.h>

#include "analysis/wait/states/thread_states_private.h"
#include "analysis/wait/wait_object.h"
#include "common/array.h"
#include "common/error.h"

#define STATE_PREEMPTED 0x100 /* of prev_state: R+ */
#define PAGE		4096ul
#define LARGE		(4ul << 20)
#define SPANS_AT_ONCE	16384u
#define WAITS_AT_ONCE	2048u
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* Many pages at once cost less than a page fault each. It matters for arrays that a long trace
 * fills with hundreds of megabytes: of smaller ones no page is asked for that may not be used. */
static void ask_for_pages(uintptr_t begin, uintptr_t end)
{
	begin = (begin + PAGE - 1) & ~(PAGE - 1);
	madvise((void *)begin, (end & ~(PAGE - 1)) - begin, MADV_POPULATE_WRITE); /* Linux 5.14 */
}

/* ip_array_grow(). step: a power of two, so many elements get their pages at once. */
static inline int grow(void *array, size_t n, size_t size, size_t step)
{
	uintptr_t end;

	if (n & (n - 1) && n & (step - 1))
		return 0;
	if (ip_array_grow(array, n, size) < 0)
		return -1;
	if (n * size < LARGE)
		return 0;
	end = *(uintptr_t *)array + n * size;
	ask_for_pages(end, end + step * size);
	return 0;
}

static inline int begin_span(struct ip_thread_states *t, struct ip_thread_span span)
{
	struct ip_thread_span *last = ip_thread_last_span(t);

	if (last && last->from == span.from) {
		*last = span;
		return 0;
	}
	if (last && last->state == span.state && span.state == IP_THREAD_UNKNOWN)
		return 0;
	if (grow(&t->spans, t->nspans, sizeof(span), SPANS_AT_ONCE) < 0)
		return -1;
	t->spans[t->nspans++] = span;
	return 0;
}

int ip_thread_begin_span(struct ip_thread_states *t, const struct ip_thread_span *span)
{
	return begin_span(t, *span);
}

int ip_thread_begin_wait(struct ip_thread_states *t, uint64_t from, char kind)
{
	const struct ip_thread_span *last = ip_thread_last_span(t);
	struct ip_thread_wait *wait;

	/* one that came before the thread ran last has nothing to do with this wait */
	if (last && last->state == IP_THREAD_RUNNING && t->early.tsc < last->from)
		t->early.tsc = 0;
	if (t->nwaits >= UINT32_MAX || grow(&t->waits, t->nwaits, sizeof(*wait), WAITS_AT_ONCE) < 0)
		return t->nwaits >= UINT32_MAX ? ip_error("too many waits of one thread") : -1;
	wait = &t->waits[t->nwaits];
	*wait = (struct ip_thread_wait){
		.call = t->call, .kind = kind, .next_fd = -1, .last = t->nwaits};
	if (t->call.number == IP_NO_CALL) {
		wait->fault = t->fault;
		wait->call.untold &= !t->fault;
	}
	t->nwaits++;
	return begin_span(t, (struct ip_thread_span){.from = from,
						     .state = IP_THREAD_BLOCKED,
						     .wait = t->nwaits - 1});
}

/* The bit of prev_state that is set, as ps(1) names it. */
static char kind_of(int64_t state)
{
	static const char kinds[] = "SDTtXZPI";

	for (unsigned i = 0; i < sizeof(kinds) - 1; i++)
		if (state >> i & 1)
			return kinds[i];
	return '?';
}

void ip_thread_take_name(struct ip_thread_states *t, const uint8_t *comm)
{
	memcpy(t->name, comm, sizeof(t->name));
	t->name[sizeof(t->name) - 1] = '\0';
}

static int leave(struct ip_states *s, const struct ip_kernel_record *r,
		 struct ip_thread_states *current)
{
	const int32_t tid = ip_kernel_s32(r, SWITCH_PREV_TID);
	const int64_t state = ip_kernel_u64(r, SWITCH_PREV_STATE);
	struct ip_thread_states *t;

	if (!tid)
		return 0;
	t = current && tid == r->tid ? current : ip_thread_get(s, tid);
	if (!t || ip_thread_begin_first(s, t, r, IP_THREAD_RUNNING) < 0)
		return -1;
	/* it may have given itself a name since it got the CPU */
	ip_thread_take_name(t, r->fields + SWITCH_PREV_COMM);
	if (!(state & (STATE_PREEMPTED - 1)))
		return begin_span(
			t, (struct ip_thread_span){.from = r->tsc,
						   .state = IP_THREAD_RUNNABLE,
						   .preempted = state & STATE_PREEMPTED,
						   .cpu = r->cpu,
						   .other = ip_kernel_s32(r, SWITCH_NEXT_TID)});
	if (kind_of(state) == 'X' || kind_of(state) == 'Z') {
		t->end = r->tsc;
		return begin_span(t,
				  (struct ip_thread_span){.from = r->tsc, .state = IP_THREAD_GONE});
	}
	return ip_thread_begin_wait(t, r->tsc, kind_of(state));
}

static int begin_running(struct ip_thread_states *t, uint64_t from, uint32_t cpu)
{
	const struct ip_thread_waking *waking =
		ip_thread_state_of(t) == IP_THREAD_BLOCKED
			? &t->waits[ip_thread_last_span(t)->wait].waking
			: NULL;

	/* Its wakeup was not seen: what is known is that somebody woke it. */
	if (waking && waking->tsc &&
	    begin_span(t, (struct ip_thread_span){.from = waking->tsc,
						  .state = IP_THREAD_RUNNABLE,
						  .cpu = cpu}) < 0)
		return -1;
	return begin_span(
		t, (struct ip_thread_span){.from = from, .state = IP_THREAD_RUNNING, .cpu = cpu});
}

static int arrive(struct ip_states *s, const struct ip_kernel_record *r)
{
	const int32_t tid = ip_kernel_s32(r, SWITCH_NEXT_TID);
	struct ip_thread_states *t;

	if (!tid)
		return 0;
	t = ip_thread_get(s, tid);
	if (!t || ip_thread_begin_first(s, t, r, IP_THREAD_RUNNABLE) < 0)
		return -1;
	ip_thread_take_name(t, r->fields + SWITCH_NEXT_COMM);
	return begin_running(t, r->tsc, r->cpu);
}

int ip_thread_note_switch(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current)
{
	return leave(s, r, current) < 0 ? -1 : arrive(s, r);
}

/* Somebody wakes a thread. It may be on its way to block: then its switch comes a moment later,
 * and tells that it is blocked all the same. ip_thread_note_wakeup() uses this waking then. */
int ip_thread_note_waking(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current)
{
	struct ip_thread_waking waking = {.tsc = r->tsc, .waker = r->tid, .context = r->context};
	struct ip_thread_states *t;

	if (!r->context && r->tid) {
		t = current ? current : ip_thread_get(s, r->tid);
		if (!t)
			return -1;
		if (t->call.number != IP_NO_CALL) {
			waking.word = ip_wait_woken_word(&t->call);
			waking.opens = ip_wait_is_open(&t->call);
		}
	}
	t = ip_thread_get(s, ip_kernel_s32(r, WOKEN_TID));
	if (!t)
		return -1;
	if (!t->nspans && !t->begin && r->tsc >= s->begin &&
	    ip_thread_begin_wait(t, s->begin, 'S') < 0)
		return -1;
	if (ip_thread_state_of(t) != IP_THREAD_BLOCKED)
		t->early = waking;
	else if (!t->waits[ip_thread_last_span(t)->wait].waking.tsc)
		t->waits[ip_thread_last_span(t)->wait].waking = waking;
	return 0;
}

int ip_thread_note_wakeup(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = ip_thread_get(s, ip_kernel_s32(r, WOKEN_TID));
	uint32_t cpu;

	if (!t)
		return -1;
	if (ip_thread_state_of(t) != IP_THREAD_BLOCKED &&
	    !(r->id == IP_KERNEL_SCHED_WAKEUP_NEW && !t->nspans)) {
		t->early.tsc = 0; /* it kept the thread from blocking, and is over */
		return 0;
	}
	if (ip_thread_state_of(t) == IP_THREAD_BLOCKED &&
	    !t->waits[ip_thread_last_span(t)->wait].waking.tsc)
		t->waits[ip_thread_last_span(t)->wait].waking = t->early;
	t->early.tsc = 0;
	cpu = ip_kernel_s32(r, WOKEN_CPU);
	return begin_span(t, (struct ip_thread_span){
				     .from = r->tsc,
				     .state = IP_THREAD_RUNNABLE,
				     .cpu = cpu < IP_KERNEL_CPUS_MAX ? cpu : IP_KERNEL_CPUS_MAX});
}

int ip_thread_note_running(struct ip_thread_states *t, const struct ip_kernel_record *r,
			   const struct ip_cpu_state *cpu)
{
	uint64_t could = r->tsc; /* run */

	switch (ip_thread_state_of(t)) {
	case IP_THREAD_RUNNABLE:
		could = ip_thread_last_span(t)->from;
		break;
	case IP_THREAD_BLOCKED:
		if (t->waits[ip_thread_last_span(t)->wait].waking.tsc)
			could = t->waits[ip_thread_last_span(t)->wait].waking.tsc;
		break;
	case IP_THREAD_UNKNOWN:
		break;
	default:
		return 0;
	}
	if (cpu->tid != 0) /* another thread had it, and nobody knows until when */
		could = r->tsc;
	return begin_running(t, could > cpu->last ? could : cpu->last, r->cpu);
}

/* Whether events that another CPU has lost leave the span as it is. */
static bool is_sure(const struct ip_thread_span *span, uint32_t cpu)
{
	return span->state == IP_THREAD_GONE ||
	       (span->state == IP_THREAD_RUNNING && span->cpu != cpu);
}

/* A loss is found by the first event behind it, when spans of the time since then have begun by
 * events of other CPUs: those are not known either. */
static int lose(struct ip_states *s, struct ip_thread_states *t, const struct ip_kernel_record *r)
{
	size_t first = t->nspans, to;

	while (first && t->spans[first - 1].from > r->lost_since)
		first--;
	first -= first > 0; /* it goes on over the begin of the loss */
	s->work += t->nspans - first;
	if (ip_array_grow(&t->spans, t->nspans, sizeof(*t->spans)) < 0)
		return -1;
	/* room for one: the part of the first one that is known */
	memmove(&t->spans[first + 1], &t->spans[first], (t->nspans - first) * sizeof(*t->spans));
	to = first;
	for (size_t i = first + 1; i <= t->nspans; i++) {
		struct ip_thread_span span = t->spans[i];

		if (is_sure(&span, r->cpu) ||
		    (span.from < r->lost_since && span.state == IP_THREAD_UNKNOWN)) {
			t->spans[to++] = span;
			continue;
		}
		if (span.from < r->lost_since) {
			t->spans[to++] = span;
			span.from = r->lost_since;
		}
		if (!to || t->spans[to - 1].state != IP_THREAD_UNKNOWN)
			t->spans[to++] = (struct ip_thread_span){.from = span.from,
								 .state = IP_THREAD_UNKNOWN};
	}
	t->nspans = to;
	return 0;
}

int ip_thread_lose_spans(struct ip_states *s, const struct ip_kernel_record *r)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->threads[i].nspans && lose(s, &s->threads[i], r) < 0)
			return -1;
	return 0;
}
