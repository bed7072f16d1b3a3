/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that threads are in, what ended the waits in them, and what the calls change:
 * descriptors, futexes, threads.
 */
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>

#include "analysis/wait/descriptors/descriptor_births.h"
#include "analysis/wait/idle/idle_kind.h"
#include "analysis/wait/states/thread_states_private.h"
#include "analysis/wait/wait_object.h"
#include "common/array.h"
#include "common/error.h"

#define PARTS_MOST 256u /* waits of a call that goes on: its return looks at them */

#define ASKINGS_MOST (64u << 20)

/* Of the kernel: the call is to go on, unless a signal is handled first. */
#define ERESTARTSYS	      512
#define ERESTART_RESTARTBLOCK 516

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

int ip_thread_lose_calls(struct ip_states *s, const struct ip_kernel_record *r)
{
	if (add_making(s, &(struct ip_descriptor_birth){.tsc = r->tsc}) < 0)
		return -1;
	if (!r->lost && close_all(s, r->tsc) < 0)
		return -1;
	for (size_t i = 0; i < s->n; i++) {
		s->threads[i].first_wait = s->threads[i].nwaits;
		s->threads[i].call.number = s->threads[i].broken.number = IP_NO_CALL;
		s->threads[i].call.untold = true;
		s->threads[i].fault = 0;
		s->threads[i].polled = 0;
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

static int note_asking(struct ip_states *s, struct ip_thread_states *t, uint64_t tsc)
{
	if (s->naskings == ASKINGS_MOST)
		return 0;
	if (ip_array_grow(&t->askings, t->naskings, sizeof(tsc)) < 0)
		return -1;
	t->askings[t->naskings++] = tsc;
	s->naskings++;
	return 0;
}

int ip_thread_note_call(struct ip_states *s, const struct ip_kernel_record *r,
			struct ip_thread_states *current)
{
	struct ip_thread_states *t = current ? current : ip_thread_get(s, r->tid);
	const uint16_t number = r->id - IP_KERNEL_SYSCALL_ENTRY;
	struct ip_thread_call call;

	if (!t)
		return -1;
	if (ip_thread_begin_first(s, t, r, IP_THREAD_RUNNING) < 0)
		return -1;
	if (ip_idle_call_asks(number) && note_asking(s, t, r->tsc) < 0)
		return -1;
	/* it was in none since its calls are recorded */
	for (size_t i = t->first_wait; t->call.untold && i < t->nwaits; i++)
		t->waits[i].call.untold = false;
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

/* A call returns that has begun before its events were there: what its arguments were is not known,
 * but the waits since then were in it. */
static void find_call(struct ip_thread_states *t, uint16_t number)
{
	t->call = (struct ip_thread_call){.number = number, .untold = true};
	for (size_t i = t->first_wait; i < t->nwaits; i++)
		if (t->waits[i].call.untold)
			t->waits[i].call = t->call;
}

int ip_thread_note_return(struct ip_states *s, const struct ip_kernel_record *r,
			  struct ip_thread_states *current)
{
	struct ip_thread_states *t = current ? current : ip_thread_get(s, r->tid);
	const int64_t result = ip_kernel_u64(r, 0);

	if (!t)
		return -1;
	if (ip_thread_begin_first(s, t, r, IP_THREAD_RUNNING) < 0)
		return -1;
	note_born(s, t, r->id - IP_KERNEL_SYSCALL_EXIT, ip_kernel_u64(r, 0));
	if (note_making(s, r, &t->call) < 0)
		return -1;
	if (t->call.untold && t->call.number == IP_NO_CALL)
		find_call(t, r->id - IP_KERNEL_SYSCALL_EXIT);
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
	t->call = (struct ip_thread_call){.number = IP_NO_CALL};
	t->fault = 0;
	t->first_wait = t->nwaits;
	return 0;
}

/* The call that a thread was blocked in when its process began to be recorded. The thread has been
 * in it ever since, if no other call of it has been seen. */
int ip_thread_note_call_state(struct ip_states *s, const struct ip_kernel_record *r)
{
	struct ip_thread_states *t = ip_thread_get(s, ip_kernel_s32(r, CALL_TID));

	if (!t)
		return -1;
	if (!t->call.untold || t->call.number != IP_NO_CALL)
		return 0;
	t->call.untold = false;
	t->call.number = ip_kernel_s32(r, CALL_NUMBER);
	memcpy(t->call.arguments, r->fields + CALL_ARGUMENTS, sizeof(t->call.arguments));
	if (!t->nspans)
		return ip_thread_begin_wait(t, s->begin < r->tsc ? s->begin : r->tsc, 'S');
	if (ip_thread_state_of(t) == IP_THREAD_UNKNOWN)
		return ip_thread_begin_wait(t, r->tsc, 'S');
	if (ip_thread_state_of(t) == IP_THREAD_BLOCKED) {
		t->first_wait = ip_thread_last_span(t)->wait;
		t->waits[t->first_wait].call = t->call;
	}
	return 0;
}
