/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows the states of threads through the events of the kernel. thread_states.h has the rules.
 */
#include "analysis/wait/thread_states.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptor_births.h"
#include "analysis/wait/wait_object.h"
#include "common/array.h"
#include "common/error.h"

#define STATE_PREEMPTED	 0x100 /* of prev_state: R+ */
#define INDEX_LEAST	 1024u
#define PARTS_MOST	 256u	     /* waits of a call that goes on: its return looks at them */
#define LOSSES_WORK_MOST 4000000000u /* threads that losses may have looked at */

/* Of the kernel: the call is to go on, unless a signal is handled first. */
#define ERESTARTSYS	      512
#define ERESTART_RESTARTBLOCK 516

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

static size_t slot_of(const struct ip_states *s, int32_t tid)
{
	size_t at = (uint32_t)tid * 2654435761u & (s->index_size - 1);

	while (s->index[at] && s->threads[s->index[at] - 1].tid != tid)
		at = (at + 1) & (s->index_size - 1);
	return at;
}

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
		s->index[slot_of(s, s->threads[i].tid)] = i + 1;
	return 0;
}

/* Makes a thread, which takes the place of an older one with its tid. */
static struct ip_thread_states *make(struct ip_states *s, int32_t tid, uint64_t begin)
{
	struct ip_thread_states thread = {.tid = tid, .begin = begin, .end = UINT64_MAX};

	thread.call.number = thread.broken.number = IP_NO_CALL;
	if (s->n >= UINT32_MAX - 1) {
		ip_error("too many threads");
		return NULL;
	}
	if (2 * (s->n + 1) > s->index_size && grow_index(s) < 0)
		return NULL;
	if (ip_array_grow(&s->threads, s->n, sizeof(thread)) < 0)
		return NULL;
	thread.older = s->index[slot_of(s, tid)];
	s->threads[s->n++] = thread;
	s->index[slot_of(s, tid)] = s->n;
	return &s->threads[s->n - 1];
}

/* The thread that has a tid now; it is made where it is new. */
static struct ip_thread_states *get(struct ip_states *s, int32_t tid)
{
	size_t at = s->index_size ? slot_of(s, tid) : 0;

	return s->index_size && s->index[at] ? &s->threads[s->index[at] - 1] : make(s, tid, 0);
}

static struct ip_thread_span *last_span(struct ip_thread_states *t)
{
	return t->nspans ? &t->spans[t->nspans - 1] : NULL;
}

static int begin_span(struct ip_thread_states *t, const struct ip_thread_span *span)
{
	struct ip_thread_span *last = last_span(t);

	if (last && last->from == span->from) {
		*last = *span;
		return 0;
	}
	if (last && last->state == span->state && span->state == IP_THREAD_UNKNOWN)
		return 0;
	if (ip_array_grow(&t->spans, t->nspans, sizeof(*span)) < 0)
		return -1;
	t->spans[t->nspans++] = *span;
	return 0;
}

/* The first event of a thread tells what it did up to then. */
static int begin_first(const struct ip_states *s, struct ip_thread_states *t,
		       enum ip_thread_state state, uint32_t cpu)
{
	return t->nspans || t->begin
		       ? 0
		       : begin_span(t, &(struct ip_thread_span){
					       .from = s->begin, .state = state, .cpu = cpu});
}

static enum ip_thread_state state_of(struct ip_thread_states *t)
{
	return t->nspans ? last_span(t)->state : IP_THREAD_UNKNOWN;
}

static int begin_wait(struct ip_thread_states *t, uint64_t from, char kind)
{
	struct ip_thread_wait wait = {
		.call = t->call, .kind = kind, .next_fd = -1, .last = t->nwaits};
	const struct ip_thread_span *last = last_span(t);

	/* one that came before the thread ran last has nothing to do with this wait */
	if (last && last->state == IP_THREAD_RUNNING && t->early.tsc < last->from)
		t->early.tsc = 0;
	if (t->call.number == IP_NO_CALL)
		wait.fault = t->fault;
	if (t->nwaits >= UINT32_MAX || ip_array_grow(&t->waits, t->nwaits, sizeof(wait)) < 0)
		return t->nwaits >= UINT32_MAX ? ip_error("too many waits of one thread") : -1;
	t->waits[t->nwaits++] = wait;
	return begin_span(t, &(struct ip_thread_span){.from = from,
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

static void take_name(struct ip_thread_states *t, const uint8_t *comm)
{
	memcpy(t->name, comm, sizeof(t->name));
	t->name[sizeof(t->name) - 1] = '\0';
}

static int leave(struct ip_states *s, const struct ip_kernel_record *r)
{
	const int32_t tid = ip_kernel_s32(r, SWITCH_PREV_TID);
	const int64_t state = ip_kernel_u64(r, SWITCH_PREV_STATE);
	struct ip_thread_states *t;

	if (!tid)
		return 0;
	t = get(s, tid);
	if (!t || begin_first(s, t, IP_THREAD_RUNNING, r->cpu) < 0)
		return -1;
	/* it may have given itself a name since it got the CPU */
	take_name(t, r->fields + SWITCH_PREV_COMM);
	if (!(state & (STATE_PREEMPTED - 1)))
		return begin_span(
			t, &(struct ip_thread_span){.from = r->tsc,
						    .state = IP_THREAD_RUNNABLE,
						    .preempted = state & STATE_PREEMPTED,
						    .cpu = r->cpu,
						    .other = ip_kernel_s32(r, SWITCH_NEXT_TID)});
	if (kind_of(state) == 'X' || kind_of(state) == 'Z') {
		t->end = r->tsc;
		return begin_span(
			t, &(struct ip_thread_span){.from = r->tsc, .state = IP_THREAD_GONE});
	}
	return begin_wait(t, r->tsc, kind_of(state));
}

static int begin_running(struct ip_thread_states *t, uint64_t from, uint32_t cpu)
{
	const struct ip_thread_waking *waking =
		state_of(t) == IP_THREAD_BLOCKED ? &t->waits[last_span(t)->wait].waking : NULL;

	/* Its wakeup was not seen: what is known is that somebody woke it. */
	if (waking && waking->tsc &&
	    begin_span(t, &(struct ip_thread_span){.from = waking->tsc,
						   .state = IP_THREAD_RUNNABLE,
						   .cpu = cpu}) < 0)
		return -1;
	return begin_span(
		t, &(struct ip_thread_span){.from = from, .state = IP_THREAD_RUNNING, .cpu = cpu});
}

static int arrive(struct ip_states *s, const struct ip_kernel_record *r)
{
	const int32_t tid = ip_kernel_s32(r, SWITCH_NEXT_TID);
	struct ip_thread_states *t;

	if (!tid)
		return 0;
	t = get(s, tid);
	if (!t || begin_first(s, t, IP_THREAD_RUNNABLE, r->cpu) < 0)
		return -1;
	take_name(t, r->fields + SWITCH_NEXT_COMM);
	return begin_running(t, r->tsc, r->cpu);
}

/* Somebody wakes a thread. It may be on its way to block: then its switch comes a moment later,
 * and tells that it is blocked all the same. note_wakeup() uses this waking then. */
static int note_waking(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_waking waking = {.tsc = r->tsc, .waker = r->tid, .context = r->context};
	struct ip_thread_states *t;

	if (!r->context && r->tid) {
		t = get(s, r->tid);
		if (!t)
			return -1;
		waking.word = ip_wait_woken_word(&t->call);
		waking.opens = ip_wait_is_open(&t->call);
	}
	t = get(s, ip_kernel_s32(r, WOKEN_TID));
	if (!t)
		return -1;
	if (!t->nspans && !t->begin && begin_wait(t, s->begin, 'S') < 0)
		return -1;
	if (state_of(t) != IP_THREAD_BLOCKED)
		t->early = waking;
	else if (!t->waits[last_span(t)->wait].waking.tsc)
		t->waits[last_span(t)->wait].waking = waking;
	return 0;
}

static int note_wakeup(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = get(s, ip_kernel_s32(r, WOKEN_TID));

	if (!t)
		return -1;
	if (state_of(t) != IP_THREAD_BLOCKED &&
	    !(r->id == IP_KERNEL_SCHED_WAKEUP_NEW && !t->nspans)) {
		t->early.tsc = 0; /* it kept the thread from blocking, and is over */
		return 0;
	}
	if (state_of(t) == IP_THREAD_BLOCKED && !t->waits[last_span(t)->wait].waking.tsc)
		t->waits[last_span(t)->wait].waking = t->early;
	t->early.tsc = 0;
	return begin_span(t, &(struct ip_thread_span){.from = r->tsc,
						      .state = IP_THREAD_RUNNABLE,
						      .cpu = ip_kernel_s32(r, WOKEN_CPU)});
}

static int add_birth(struct ip_states *s, const struct ip_thread_birth *birth)
{
	if (ip_array_grow(&s->births, s->nbirths, sizeof(*birth)) < 0)
		return -1;
	s->births[s->nbirths++] = *birth;
	return 0;
}

/* Whether the call makes a process: of clone3(2) that stands in the caller's memory. */
int8_t ip_call_makes_process(uint16_t number, uint64_t flags)
{
	switch (number) {
	case SYS_fork:
	case SYS_vfork:
		return 1;
	case SYS_clone:
		return !(flags & CLONE_THREAD);
	default:
		return -1;
	}
}

static int note_fork(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_birth birth = {.tsc = r->tsc,
					.tid = ip_kernel_s32(r, FORK_CHILD_TID),
					.parent = ip_kernel_s32(r, FORK_PARENT_TID)};
	struct ip_thread_states *parent = get(s, birth.parent), *t;

	if (!parent)
		return -1;
	birth.is_process = ip_call_makes_process(parent->call.number, parent->call.arguments[0]);
	if (add_birth(s, &birth) < 0)
		return -1;
	parent->born = s->nbirths;
	t = make(s, birth.tid, r->tsc);
	if (!t)
		return -1;
	t->parent = ip_kernel_s32(r, FORK_PARENT_TID);
	take_name(t, r->fields + FORK_CHILD_COMM);
	return 0;
}

/* The parent's call that has made a thread tells it how the parent calls it. */
static void note_born(struct ip_states *s, struct ip_thread_states *parent, uint16_t number,
		      int64_t result)
{
	const bool makes = number == SYS_clone || number == SYS_clone3 || number == SYS_fork ||
			   number == SYS_vfork;

	if (parent->born && makes && result > 0 && result <= INT32_MAX)
		s->births[parent->born - 1].inner_tid = result;
	parent->born = 0;
}

static int add_making(struct ip_states *s, const struct ip_descriptor_birth *making)
{
	if (ip_array_grow(&s->descriptor_births, s->ndescriptor_births, sizeof(*making)) < 0)
		return -1;
	s->descriptor_births[s->ndescriptor_births++] = *making;
	return 0;
}

/* Nobody knows which descriptors were closed in a gap, in any process. */
static int close_all(struct ip_states *s, uint64_t tsc)
{
	const struct ip_closing all = {.tsc = tsc, .to = UINT32_MAX};
	const struct ip_closing *last = s->nclosings ? &s->closings[s->nclosings - 1] : NULL;

	/* of one CPU after the other */
	if (last && !last->tid && last->tsc == tsc)
		return 0;
	if (ip_array_grow(&s->closings, s->nclosings, sizeof(all)) < 0)
		return -1;
	s->closings[s->nclosings++] = all;
	return 0;
}

/* Events of a CPU were lost: whoever did not run on another one may have done anything. */
static int note_loss(struct ip_states *s, const struct ip_kernel_record *r)
{
	if (ip_array_grow(&s->losses, s->nlosses, sizeof(*s->losses)) < 0)
		return -1;
	s->losses[s->nlosses++] = r->tsc;
	s->lost += r->lost;
	s->work += s->n;
	if (s->work > LOSSES_WORK_MOST)
		return ip_error("the kernel's events have too many losses");
	if (!r->all && add_making(s, &(struct ip_descriptor_birth){.tsc = r->tsc}) < 0)
		return -1;
	if (!r->all && !r->lost && close_all(s, r->tsc) < 0)
		return -1;
	for (size_t i = 0; i < s->n && !r->all; i++) {
		s->threads[i].calls_known = false;
		s->threads[i].call.number = s->threads[i].broken.number = IP_NO_CALL;
		s->threads[i].fault = 0;
		s->threads[i].polled = 0;
	}
	for (size_t i = 0; i < s->n && r->all; i++) {
		struct ip_thread_states *t = &s->threads[i];
		struct ip_thread_span *last = last_span(t);

		if (!last || last->state == IP_THREAD_GONE ||
		    (last->state == IP_THREAD_RUNNING && last->cpu != r->cpu))
			continue;
		/* a gap began earlier in the stream of this CPU than in that of another one */
		if (!r->lost && last->state == IP_THREAD_UNKNOWN && last->from > r->lost_since &&
		    t->nspans > 1 &&
		    (last[-1].state != IP_THREAD_RUNNING || last[-1].cpu == r->cpu))
			last->from =
				last[-1].from < r->lost_since ? r->lost_since : last[-1].from + 1;
		if (begin_span(t, &(struct ip_thread_span){.from = last->from > r->lost_since
									   ? last->from
									   : r->lost_since,
							   .state = IP_THREAD_UNKNOWN}) < 0)
			return -1;
	}
	return 0;
}

static int note_closing(struct ip_states *s, const struct ip_kernel_record *r,
			const struct ip_thread_call *call)
{
	struct ip_closing c = {.tsc = r->tsc, .tid = r->tid, .to = UINT32_MAX};

	switch (call->number) {
	case SYS_close:
		c.from = c.to = call->arguments[0];
		break;
	case SYS_dup2:
	case SYS_dup3:
		c.from = c.to = call->arguments[1];
		break;
	case SYS_close_range:
		c.from = call->arguments[0];
		c.to = call->arguments[1];
		break;
	case SYS_execve:
	case SYS_execveat:
		c.executes = true;
		break;
	default:
		return 0;
	}
	if (ip_array_grow(&s->closings, s->nclosings, sizeof(c)) < 0)
		return -1;
	s->closings[s->nclosings++] = c;
	return 0;
}

static int note_wake(struct ip_states *s, const struct ip_kernel_record *r,
		     const struct ip_thread_call *call)
{
	const struct ip_futex_call wake = {
		.tsc = r->tsc, .address = call->arguments[0], .tid = r->tid};

	if (!ip_wait_is_wake(call))
		return 0;
	if (ip_array_grow(&s->wakes, s->nwakes, sizeof(wake)) < 0)
		return -1;
	s->wakes[s->nwakes++] = wake;
	return 0;
}

/* Whether a call is one that was broken off, or goes on with it. */
static bool goes_on(const struct ip_thread_call *broken, const struct ip_thread_call *call)
{
	if (broken->number == IP_NO_CALL)
		return false;
	return call->number == SYS_restart_syscall ||
	       (call->number == broken->number &&
		!memcmp(call->arguments, broken->arguments, sizeof(call->arguments)));
}

static int note_making(struct ip_states *s, const struct ip_kernel_record *r,
		       const struct ip_thread_call *call)
{
	const int64_t result = ip_kernel_u64(r, 0);
	struct ip_descriptor_birth making = {
		.tsc = r->tsc, .tid = r->tid, .fd = -1, .number = call->number};

	if (call->number == IP_NO_CALL || result < 0 || result > INT32_MAX)
		return 0;
	switch (ip_descriptor_makes(call)) {
	case IP_BIRTH_ONE:
		making.fd = result;
		return add_making(s, &making);
	case IP_BIRTH_UNTOLD:
		return add_making(s, &making);
	default:
		return 0;
	}
}

static int note_call(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = get(s, r->tid);
	const uint16_t number = r->id - IP_KERNEL_SYSCALL_ENTRY;
	struct ip_thread_call call;

	if (!t)
		return -1;
	if (begin_first(s, t, IP_THREAD_RUNNING, r->cpu) < 0)
		return -1;
	t->calls_known = true;
	t->fault = 0;
	/* a handler has run: a wait for descriptors ends by that, it does not go on */
	if (number == SYS_rt_sigreturn && ip_wait_is_poll(&t->broken))
		t->broken.number = IP_NO_CALL;
	call = (struct ip_thread_call){.begin = r->tsc, .number = number};
	memcpy(call.arguments, r->fields,
	       r->size < sizeof(call.arguments) ? r->size : sizeof(call.arguments));
	if (goes_on(&t->broken, &call)) {
		t->call = t->broken;
		t->first_wait =
			t->nwaits - t->broken_wait < PARTS_MOST ? t->broken_wait : t->nwaits;
		return 0;
	}
	t->call = call;
	t->first_wait = t->nwaits;
	if (t->polled && ip_wait_call_fd(&call) >= 0) {
		for (size_t i = t->polled_wait; i < t->polled; i++)
			t->waits[i].next_fd = ip_wait_call_fd(&call);
		t->polled = 0;
	}
	return note_closing(s, r, &t->call) < 0 ? -1 : note_wake(s, r, &t->call);
}

/* Whether the waking of a wait, after which its call waited again, was a false one. next: what the
 * thread was blocked for next, which may be a stop. */
static bool is_false(const struct ip_thread_wait *wait, const struct ip_thread_wait *next)
{
	return next->kind == 't' || next->kind == 'T' ||
	       (wait->kind == 'S' && ip_wait_is_for_one(&wait->call));
}

/* The call of a thread returns: what ended its waits is known now. */
static void find_false_wakings(struct ip_thread_states *t)
{
	uint32_t last = 0;

	for (size_t i = t->nwaits; i-- > t->first_wait;) {
		struct ip_thread_wait *wait = &t->waits[i];

		if (wait->call.number != t->call.number || wait->kind == 't' || wait->kind == 'T')
			continue;
		wait->last = i;
		if (last && is_false(wait, wait + 1))
			wait->last = t->waits[last].last;
		last = i;
	}
}

static int note_return(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = get(s, r->tid);
	const int64_t result = ip_kernel_u64(r, 0);

	if (!t)
		return -1;
	if (begin_first(s, t, IP_THREAD_RUNNING, r->cpu) < 0)
		return -1;
	t->calls_known = true;
	note_born(s, t, r->id - IP_KERNEL_SYSCALL_EXIT, ip_kernel_u64(r, 0));
	if (note_making(s, r, &t->call) < 0)
		return -1;
	if (ip_wait_is_poll(&t->call))
		t->polled = 0;
	for (size_t i = t->first_wait; i < t->nwaits; i++) {
		if (t->waits[i].call.number != t->call.number) /* a fault, or a stop */
			continue;
		t->waits[i].result = result;
		t->waits[i].end = r->tsc;
		t->waits[i].returned = true;
		if (ip_wait_is_poll(&t->call) && result > 0) {
			t->polled_wait = t->first_wait;
			t->polled = i + 1;
		}
	}
	find_false_wakings(t);
	t->broken.number = IP_NO_CALL;
	if (result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK) {
		t->broken = t->call;
		t->broken_wait = t->first_wait;
	}
	t->call.number = IP_NO_CALL;
	t->fault = 0;
	t->first_wait = t->nwaits;
	return 0;
}

/* What was so when the process began to be recorded. An event that has come meanwhile is newer. */
static int note_state(struct ip_states *s, const struct ip_kernel_record *r)
{
	const struct ip_thread_birth birth = {.tsc = r->tsc,
					      .tid = ip_kernel_s32(r, STATE_TID),
					      .pid = ip_kernel_s32(r, STATE_PID),
					      .is_process = ip_kernel_s32(r, STATE_TID) ==
							    ip_kernel_s32(r, STATE_PID)};
	struct ip_thread_states *t = get(s, birth.tid);

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

/* The call that a thread was blocked in when its process began to be recorded. The thread has been
 * in it ever since, if no other call of it has been seen. */
static int note_call_state(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = get(s, ip_kernel_s32(r, CALL_TID));

	if (!t)
		return -1;
	if (t->calls_known || t->call.number != IP_NO_CALL)
		return 0;
	t->call.number = ip_kernel_s32(r, CALL_NUMBER);
	memcpy(t->call.arguments, r->fields + CALL_ARGUMENTS, sizeof(t->call.arguments));
	if (!t->nspans)
		return begin_wait(t, s->begin, 'S');
	if (state_of(t) == IP_THREAD_UNKNOWN)
		return begin_wait(t, r->tsc, 'S');
	if (state_of(t) == IP_THREAD_BLOCKED) {
		t->first_wait = last_span(t)->wait;
		t->waits[t->first_wait].call = t->call;
	}
	return 0;
}

static struct ip_cpu_state *cpu_of(struct ip_states *s, uint32_t cpu)
{
	while (s->ncpus <= cpu) {
		if (ip_array_grow(&s->cpus, s->ncpus, sizeof(*s->cpus)) < 0)
			return NULL;
		s->cpus[s->ncpus++] = (struct ip_cpu_state){.tid = -1};
	}
	return &s->cpus[cpu];
}

/* An event in a thread that does not run, as far as is known: the switch to it was left out. */
static int note_running(struct ip_states *s, const struct ip_kernel_record *r,
			const struct ip_cpu_state *cpu)
{
	const size_t at = r->tid > 0 && s->index_size ? slot_of(s, r->tid) : 0;
	struct ip_thread_states *t =
		r->tid > 0 && s->index_size && s->index[at] ? &s->threads[s->index[at] - 1] : NULL;
	uint64_t could = r->tsc; /* run */

	if (!t || !t->nspans)
		return 0;
	switch (state_of(t)) {
	case IP_THREAD_RUNNABLE:
		could = last_span(t)->from;
		break;
	case IP_THREAD_BLOCKED:
		if (t->waits[last_span(t)->wait].waking.tsc)
			could = t->waits[last_span(t)->wait].waking.tsc;
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

/* What an event tells of its CPU. */
static int note_cpu(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_cpu_state *cpu;

	/* what was so at the beginning did not happen on a CPU */
	if (r->id == IP_KERNEL_PROCESS_STATE || r->id == IP_KERNEL_IDS_STATE ||
	    r->id == IP_KERNEL_SYSCALL_STATE)
		return 0;
	cpu = cpu_of(s, r->cpu);
	if (!cpu)
		return -1;
	if (r->id != IP_KERNEL_LOST && note_running(s, r, cpu) < 0)
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
	struct ip_thread_states *t;

	if (!s->begin)
		s->begin = r->tsc;
	s->events++;
	if (note_cpu(s, r) < 0)
		return -1;
	switch (r->id) {
	case IP_KERNEL_LOST:
		return note_loss(s, r);
	case IP_KERNEL_SCHED_SWITCH:
		return leave(s, r) < 0 ? -1 : arrive(s, r);
	case IP_KERNEL_SCHED_WAKING:
		return note_waking(s, r);
	case IP_KERNEL_SCHED_WAKEUP:
	case IP_KERNEL_SCHED_WAKEUP_NEW:
		return note_wakeup(s, r);
	case IP_KERNEL_SCHED_FORK:
		return note_fork(s, r);
	case IP_KERNEL_FAULT_USER:
	case IP_KERNEL_FAULT_KERNEL:
		t = get(s, r->tid);
		if (t)
			t->fault = ip_kernel_u64(r, 0);
		return t ? 0 : -1;
	case IP_KERNEL_PROCESS_STATE:
		return note_state(s, r);
	case IP_KERNEL_IDS_STATE:
		return note_ids(s, r);
	case IP_KERNEL_SYSCALL_STATE:
		return note_call_state(s, r);
	default:
		if (r->id >= IP_KERNEL_SYSCALL_EXIT)
			return note_return(s, r);
		return r->id >= IP_KERNEL_SYSCALL_ENTRY ? note_call(s, r) : 0;
	}
}

struct ip_states *ip_states_read(struct ip_kernel_reader *reader)
{
	struct ip_states *s = calloc(1, sizeof(*s));
	struct ip_kernel_record record;
	int got;

	if (!s) {
		ip_error("out of memory");
		return NULL;
	}
	while ((got = ip_kernel_reader_next(reader, &record)) > 0)
		if (take(s, &record) < 0) {
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

	if (!s->index_size || !s->index[slot_of(s, tid)])
		return NULL;
	t = &s->threads[s->index[slot_of(s, tid)] - 1];
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
