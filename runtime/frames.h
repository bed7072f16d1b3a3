/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of frames that a careful thread has: what lies in its memory, which call an event belongs to, and what is to be put right
 * where a hook was left in the middle. Part of filter.c.
 *
 * Rules as in analysis/frames.c, but for what comes back after it was left: of that the last few are remembered.
 */
#ifndef IP_RT_FRAMES_H
#define IP_RT_FRAMES_H

#include "common/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/ring.h"
#include "runtime/rt.h"

#define BELOW (1ull << 20) /* of a stack's innermost frame, and */
#define ABOVE (8ull << 10) /* of its outermost: frames of the same stack */

#define FRAMES_MAX 784u
#define QUEUE_MAX  192u
#define LEFT_MAX   64u

enum frame_state {
	FRAME_OUT = 0,	   /* left out: its exit is, too */
	FRAME_HELD = 1,	   /* its entry waits to be written */
	FRAME_WRITTEN = 2, /* its entry is in the ring */
	FRAME_LOST = 3,	   /* its entry found no room: its exit is lost, too */
};

struct frame {
	uint64_t time, sp, caller;
	uint32_t number;
	uint16_t base; /* index of the outermost frame of this stack */
	uint16_t state;
};

struct queued {
	uint64_t time, sp, caller;
	uint32_t number, kind; /* kind: written last; 0: not there */
};

/* One that was left and whose entry is in the ring: it may come back (coroutines, handlers on stacks of their own). */
struct left {
	uint64_t sp;
	uint32_t group, used;
};

struct memory {
	uint32_t n;	  /* frames */
	uint32_t held;	  /* those below are not HELD */
	uint32_t over;	  /* calls that go on without a frame: there was no room */
	uint32_t next;	  /* of left */
	uint64_t writing; /* slot->cur where frame at is about to be written; 0: it has been */
	uint64_t queued;  /* atomic for handlers: entries of queue that are taken */
	uint32_t at;
	uint32_t reserved[7];
	struct left left[LEFT_MAX];
	struct queued queue[QUEUE_MAX];
	struct frame frames[FRAMES_MAX];
};

_Static_assert(sizeof(struct memory) <= IP_SUBBUF_SIZE, "one sub-buffer");

static inline struct ip_rule rule_of(uint32_t number)
{
	static const struct ip_rule none;

	return number < rt_filters->nrules && number < IP_AREA_RULES
		       ? *(volatile struct ip_rule *)&rt_rules[number]
		       : none;
}

/* What the parts and instances of one function have in common. */
static inline uint32_t group_of(uint32_t number)
{
	uint32_t group = rule_of(number).group;

	return group ? group : number;
}

/* The outermost frame of the stack that frame i lies in. */
static inline uint32_t outermost(const struct memory *m, uint32_t i)
{
	return m->frames[i].base < i ? m->frames[i].base : i;
}

/* Whether sp lies in the stack of frame i. */
static int is_same_stack(const struct memory *m, uint32_t i, uint64_t sp)
{
	return sp <= m->frames[outermost(m, i)].sp + ABOVE && sp + BELOW > m->frames[i].sp;
}

/* The frame of the call that ends; FRAMES_MAX: none. */
static uint32_t find(const struct memory *m, const struct rt_event *event)
{
	uint32_t group = group_of(event->number), found = FRAMES_MAX, i = m->n;
	uint64_t sp = event->sp;

	if (event->kind == IP_PROBE_TAIL_EXIT) { /* its frame has been taken down: the outermost below sp */
		for (; i && m->frames[i - 1].sp <= sp; i--)
			if (group_of(m->frames[i - 1].number) == group &&
			    (m->frames[i - 1].sp < sp || found == FRAMES_MAX))
				found = i - 1;
		return found;
	}
	/* exactly there; a stack that lies above is passed over */
	while (i) {
		const struct frame *frame = &m->frames[i - 1];

		if (frame->sp == sp && group_of(frame->number) == group)
			return i - 1;
		i = frame->sp > sp ? outermost(m, i - 1) : i - 1;
	}
	if (rule_of(event->number).flags & IP_RULE_EXACT || (m->over && m->n && sp <= m->frames[m->n - 1].sp))
		return FRAMES_MAX;
	/* what an alloca has moved, or an inlined instance whose host has taken its frame down */
	for (i = m->n; i; i--) {
		const struct frame *frame = &m->frames[i - 1];

		if (group_of(frame->number) == group && is_same_stack(m, i - 1, sp) &&
		    (frame->sp > sp || (i == m->n && sp - frame->sp < ABOVE)))
			return i - 1;
	}
	return FRAMES_MAX;
}

static inline struct memory *memory_of(const struct ip_slot *slot)
{
	uint32_t taken = *(volatile uint32_t *)&slot->memory;

	return taken ? rt_memory(taken) : NULL;
}

/* The guard is set, by us or by the hook below: a handler that comes in the thread's very first hook takes the stack of frames, for the queue that
 * is in it, and the hook goes on with what it finds. NULL: the pool is exhausted. */
static __attribute__((noinline, cold)) struct memory *take_memory(struct ip_slot *slot)
{
	uint32_t taken = rt_take_memory(), none = 0;

	if (taken &&
	    !__atomic_compare_exchange_n(&slot->memory, &none, taken, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		rt_give_memory(taken);
	return memory_of(slot);
}

static inline int is_queue_empty(const struct ip_slot *slot)
{
	const struct memory *m = memory_of(slot);

	return !m || !*(volatile const uint64_t *)&m->queued;
}

/* Whether words were reserved since cur was writing. Handlers put theirs into the queue, so all that was done since is this hook's; and leaving a
 * sub-buffer, or taking the next one, which has one word then, the one that is never used, is no reserving. */
static int has_reserved(uint64_t writing, uint64_t cur)
{
	return cur != writing && cur >> IP_POSITION_BITS != IP_NO_SUBBUF &&
	       (cur & (IP_SUBBUF_WORDS - 1)) != 1;
}

/* A hook was left in the middle: what it was about to write is still held back, unless it has come as far as the ring. How many are is
 * counted anew: nobody knows between which two steps it was left. */
static void repair(struct ip_slot *slot, struct memory *m)
{
	uint32_t held = 0;

	if (m->writing && m->at < FRAMES_MAX) {
		struct frame *frame = &m->frames[m->at];

		if (frame->state == FRAME_HELD && has_reserved(m->writing, slot->cur))
			frame->state = FRAME_WRITTEN;
		m->held = frame->state == FRAME_HELD ? m->at : m->at + 1;
	}
	if (m->n > FRAMES_MAX)
		m->n = FRAMES_MAX;
	for (uint32_t i = m->held; i < m->n; i++)
		held += m->frames[i].state == FRAME_HELD;
	slot->held = held;
	cpu_store_order();
	m->writing = 0;
}

#endif
