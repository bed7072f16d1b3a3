/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the states of threads through the events of the kernel. thread_states.h has the rules.
 */
#include "analysis/wait/thread_states.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/wait/states/thread_states_private.h"
#include "common/array.h"
#include "common/error.h"

#define INDEX_LEAST	 1024u
#define LOSSES_WORK_MOST 4000000000u /* threads that losses may have looked at */

static int grow_index(struct ip_states *s)
{
	size_t size = s->index_size ? 2 * s->index_size : INDEX_LEAST;
	uint32_t *index = calloc(size, sizeof(*index));

	if (!index)
		return ip_error("out of memory");
	free(s->index);
	s->index = index;
	s->index_size = size;
	for (size_t i = 0; i < s->n; i++)
		s->index[ip_thread_slot(s, s->threads[i].tid)] = i + 1;
	return 0;
}

struct ip_thread_states *ip_thread_make(struct ip_states *s, int32_t tid, uint64_t begin)
{
	struct ip_thread_states thread = {.tid = tid, .begin = begin, .end = UINT64_MAX};

	thread.call.number = thread.broken.number = IP_NO_CALL;
	thread.call.untold = true;
	if (s->n >= UINT32_MAX - 1) {
		ip_error("too many threads");
		return NULL;
	}
	if (2 * (s->n + 1) > s->index_size && grow_index(s) < 0)
		return NULL;
	if (ip_array_grow(&s->threads, s->n, sizeof(thread)) < 0)
		return NULL;
	thread.older = s->index[ip_thread_slot(s, tid)];
	s->threads[s->n++] = thread;
	s->index[ip_thread_slot(s, tid)] = s->n;
	return &s->threads[s->n - 1];
}

static int add_birth(struct ip_states *s, const struct ip_thread_birth *birth)
{
	if (ip_array_grow(&s->births, s->nbirths, sizeof(*birth)) < 0)
		return -1;
	s->births[s->nbirths++] = *birth;
	return 0;
}

static int note_fork(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_birth birth = {.tsc = r->tsc,
					.tid = ip_kernel_s32(r, FORK_CHILD_TID),
					.parent = ip_kernel_s32(r, FORK_PARENT_TID)};
	struct ip_thread_states *parent = ip_thread_get(s, birth.parent), *t;

	if (!parent)
		return -1;
	birth.is_process = ip_call_makes_process(parent->call.number, parent->call.arguments[0]);
	if (add_birth(s, &birth) < 0)
		return -1;
	parent->born = s->nbirths;
	t = ip_thread_make(s, birth.tid, r->tsc);
	if (!t)
		return -1;
	t->parent = ip_kernel_s32(r, FORK_PARENT_TID);
	ip_thread_take_name(t, r->fields + FORK_CHILD_COMM);
	return 0;
}

static int note_loss(struct ip_states *s, const struct ip_kernel_record *r)
{
	if (ip_array_grow(&s->losses, s->nlosses, sizeof(*s->losses)) < 0)
		return -1;
	s->losses[s->nlosses++] = r->tsc;
	s->lost += r->lost;
	s->work += s->n;
	if (s->work > LOSSES_WORK_MOST)
		return ip_error("the kernel's events have too many losses");
	return r->all ? ip_thread_lose_spans(s, r) : ip_thread_lose_calls(s, r);
}

/* What was so when the process began to be recorded. An event that has come meanwhile is newer. */
static int note_state(struct ip_states *s, const struct ip_kernel_record *r)
{
	const struct ip_thread_birth birth = {.tsc = r->tsc,
					      .tid = ip_kernel_s32(r, STATE_TID),
					      .pid = ip_kernel_s32(r, STATE_PID),
					      .is_process = ip_kernel_s32(r, STATE_TID) ==
							    ip_kernel_s32(r, STATE_PID)};
	struct ip_thread_states *t = ip_thread_get(s, birth.tid);

	if (!t)
		return -1;
	if (!*t->name)
		memcpy(t->name, r->fields + STATE_NAME, sizeof(t->name) - 1);
	return add_birth(s, &birth);
}

/* The ids of a thread in another pid namespace. */
static int note_ids(struct ip_states *s, const struct ip_kernel_record *r)
{
	const struct ip_thread_birth birth = {.tsc = r->tsc,
					      .tid = ip_kernel_s32(r, IDS_TID),
					      .pid = ip_kernel_s32(r, IDS_PID),
					      .inner_tid = ip_kernel_s32(r, IDS_INNER_TID),
					      .inner_pid = ip_kernel_s32(r, IDS_INNER_PID),
					      .is_process = ip_kernel_s32(r, IDS_TID) ==
							    ip_kernel_s32(r, IDS_PID)};

	return add_birth(s, &birth);
}

static inline struct ip_cpu_state *cpu_of(struct ip_states *s, uint32_t cpu)
{
	while (__builtin_expect(s->ncpus <= cpu, 0)) {
		if (ip_array_grow(&s->cpus, s->ncpus, sizeof(*s->cpus)) < 0)
			return NULL;
		s->cpus[s->ncpus++] = (struct ip_cpu_state){.tid = -1};
	}
	return &s->cpus[cpu];
}

/* What an event tells of its CPU, and of the thread that it is in. */
static inline int note_cpu(struct ip_states *s, const struct ip_kernel_record *r,
			   struct ip_thread_states *current)
{
	struct ip_cpu_state *cpu;

	/* what was so at the beginning did not happen on a CPU */
	if (r->id == IP_KERNEL_PROCESS_STATE || r->id == IP_KERNEL_IDS_STATE ||
	    r->id == IP_KERNEL_SYSCALL_STATE)
		return 0;
	cpu = cpu_of(s, r->cpu);
	if (!cpu)
		return -1;
	if (current && current->nspans && ip_thread_state_of(current) != IP_THREAD_RUNNING &&
	    ip_thread_note_running(current, r, cpu) < 0)
		return -1;
	if (r->id == IP_KERNEL_LOST)
		cpu->tid = -1;
	else if (r->id == IP_KERNEL_SCHED_SWITCH)
		cpu->tid = ip_kernel_s32(r, SWITCH_NEXT_TID);
	cpu->last = r->tsc;
	return 0;
}

static int take(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *current =
		r->id != IP_KERNEL_LOST && r->tid > 0 ? ip_thread_known(s, r->tid) : NULL;

	if (!s->begin)
		s->begin = r->tsc; /* older events are not gone */
	s->events++;
	if (note_cpu(s, r, current) < 0)
		return -1;
	switch (r->id) {
	case IP_KERNEL_LOST:
		return note_loss(s, r);
	case IP_KERNEL_SCHED_SWITCH:
		return ip_thread_note_switch(s, r, current);
	case IP_KERNEL_SCHED_WAKING:
		return ip_thread_note_waking(s, r, current);
	case IP_KERNEL_SCHED_WAKEUP:
	case IP_KERNEL_SCHED_WAKEUP_NEW:
		return ip_thread_note_wakeup(s, r);
	case IP_KERNEL_SCHED_FORK:
		return note_fork(s, r);
	case IP_KERNEL_FAULT_USER:
	case IP_KERNEL_FAULT_KERNEL:
		current = current ? current : ip_thread_get(s, r->tid);
		if (current)
			current->fault = ip_kernel_u64(r, 0);
		return current ? 0 : -1;
	case IP_KERNEL_PROCESS_STATE:
		return note_state(s, r);
	case IP_KERNEL_IDS_STATE:
		return note_ids(s, r);
	case IP_KERNEL_SYSCALL_STATE:
		return ip_thread_note_call_state(s, r);
	default:
		if (r->id >= IP_KERNEL_SYSCALL_EXIT)
			return ip_thread_note_return(s, r, current);
		return r->id >= IP_KERNEL_SYSCALL_ENTRY ? ip_thread_note_call(s, r, current) : 0;
	}
}

struct ip_states *ip_states_read(struct ip_kernel_reader *reader)
{
	return ip_states_read_with(reader, NULL);
}

struct ip_states *ip_states_read_with(struct ip_kernel_reader *reader,
				      const struct ip_kernel_observer *also)
{
	struct ip_states *s = calloc(1, sizeof(*s));
	struct ip_kernel_record record;
	int got;

	if (!s) {
		ip_error("out of memory");
		return NULL;
	}
	s->begin = ip_kernel_reader_begin(reader);
	while ((got = ip_kernel_reader_next(reader, &record)) > 0)
		if ((also && also->take(also->context, &record) < 0) || take(s, &record) < 0) {
			got = -1;
			break;
		}
	s->end = ip_kernel_reader_end(reader);
	if (s->end < s->begin)
		s->end = s->begin;
	if (got == 0)
		return s;
	ip_states_destroy(s);
	return NULL;
}

const struct ip_thread_states *ip_states_find(const struct ip_states *s, int32_t tid, uint64_t tsc)
{
	const struct ip_thread_states *t;

	if (!s->index_size || !s->index[ip_thread_slot(s, tid)])
		return NULL;
	t = &s->threads[s->index[ip_thread_slot(s, tid)] - 1];
	while (tsc < t->begin && t->older)
		t = &s->threads[t->older - 1];
	return tsc < t->begin ? NULL : t;
}

bool ip_states_lost_between(const struct ip_states *s, uint64_t from, uint64_t to)
{
	size_t low = 0, high = s->nlosses;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (s->losses[middle] < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low < s->nlosses && s->losses[low] <= to;
}

size_t ip_states_span_at(const struct ip_thread_states *t, uint64_t tsc)
{
	size_t low = 0, high = t->nspans;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (t->spans[middle].from <= tsc)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : t->nspans;
}

void ip_states_destroy(struct ip_states *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		free(s->threads[i].spans);
		free(s->threads[i].waits);
		free(s->threads[i].askings);
	}
	free(s->threads);
	free(s->closings);
	free(s->wakes);
	free(s->losses);
	free(s->births);
	free(s->descriptor_births);
	free(s->cpus);
	free(s->index);
	free(s);
}
