/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that follow the states of threads share: the table of threads and the order of
 * events (thread_states.c), spans by the scheduler's events (thread_spans.c), system calls
 * (thread_calls.c). thread_states.h has the rules.
 *
 * All functions that return int return 0, or -1 with an error.
 */
#ifndef IP_THREAD_STATES_PRIVATE_H
#define IP_THREAD_STATES_PRIVATE_H

#include "analysis/wait/thread_states.h"

/* Places of fields in events (common/trace/kernel_events.c). */
enum {
	SWITCH_PREV_COMM = 0,
	SWITCH_PREV_TID = 16,
	SWITCH_PREV_STATE = 24,
	SWITCH_NEXT_COMM = 32,
	SWITCH_NEXT_TID = 48,
	WOKEN_TID = 16,
	WOKEN_CPU = 24,
	FORK_PARENT_TID = 16,
	FORK_CHILD_COMM = 20,
	FORK_CHILD_TID = 36,
	EXIT_TID = 16,
	STATE_TID = 0,
	STATE_PID = 4,
	STATE_NAME = 12,
	STATE_STATUS = 40,
	CALL_TID = 0,
	CALL_NUMBER = 4,
	CALL_ARGUMENTS = 8,
	IDS_TID = 0,
	IDS_PID = 4,
	IDS_INNER_TID = 8,
	IDS_INNER_PID = 12,
};

static inline size_t ip_thread_slot(const struct ip_states *s, int32_t tid)
{
	size_t at = (uint32_t)tid * 2654435761u & (s->index_size - 1);

	while (s->index[at] && s->threads[s->index[at] - 1].tid != tid)
		at = (at + 1) & (s->index_size - 1);
	return at;
}

/* Makes a thread, which takes the place of an older one with its tid. NULL with an error. */
struct ip_thread_states *ip_thread_make(struct ip_states *s, int32_t tid, uint64_t begin);

/* The thread that has a tid now; it is made where it is new. */
static inline struct ip_thread_states *ip_thread_get(struct ip_states *s, int32_t tid)
{
	size_t at = s->index_size ? ip_thread_slot(s, tid) : 0;

	return s->index_size && s->index[at] ? &s->threads[s->index[at] - 1]
					     : ip_thread_make(s, tid, 0);
}

/* The thread that has a tid now; NULL: none is known. */
static inline struct ip_thread_states *ip_thread_known(const struct ip_states *s, int32_t tid)
{
	const uint32_t at = s->index_size ? s->index[ip_thread_slot(s, tid)] : 0;

	return at ? &s->threads[at - 1] : NULL;
}

static inline struct ip_thread_span *ip_thread_last_span(struct ip_thread_states *t)
{
	return t->nspans ? &t->spans[t->nspans - 1] : NULL;
}

static inline enum ip_thread_state ip_thread_state_of(struct ip_thread_states *t)
{
	return t->nspans ? ip_thread_last_span(t)->state : IP_THREAD_UNKNOWN;
}

/* Spans. */
int ip_thread_begin_span(struct ip_thread_states *t, const struct ip_thread_span *span);
/* The first event of a thread tells what it did up to then, on the event's CPU. */
static inline int ip_thread_begin_first(const struct ip_states *s, struct ip_thread_states *t,
					const struct ip_kernel_record *r,
					enum ip_thread_state state)
{
	/* before the begin, events of another CPU are missing */
	return t->nspans || t->begin || r->tsc < s->begin
		       ? 0
		       : ip_thread_begin_span(t, &(struct ip_thread_span){.from = s->begin,
									  .state = state,
									  .cpu = r->cpu});
}
int ip_thread_begin_wait(struct ip_thread_states *t, uint64_t from, char kind);
void ip_thread_take_name(struct ip_thread_states *t, const uint8_t *comm);
/* current: the thread that the event is in; NULL: it is not known yet. */
int ip_thread_note_switch(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current);
int ip_thread_note_waking(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current);
int ip_thread_note_wakeup(struct ip_states *s, const struct ip_kernel_record *r);
/* An event in a thread that does not run, as far as is known: the switch to it was left out. */
int ip_thread_note_running(struct ip_thread_states *t, const struct ip_kernel_record *r,
			   const struct ip_cpu_state *cpu);
/* Events of a CPU, of all processes, were lost: whoever did not run on another one may have done
 * anything. */
int ip_thread_lose_spans(struct ip_states *s, const struct ip_kernel_record *r);

/* System calls. */
int ip_thread_note_call(struct ip_states *s, const struct ip_kernel_record *r,
			struct ip_thread_states *current);
int ip_thread_note_return(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current);
/* The call that a thread was blocked in when its process began to be recorded. */
int ip_thread_note_call_state(struct ip_states *s, const struct ip_kernel_record *r);
/* Events of the target's threads were lost. */
int ip_thread_lose_calls(struct ip_states *s, const struct ip_kernel_record *r);

#endif
