/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of frames of a careful thread: what its memory holds, which call an event belongs to,
 * and how the memory is repaired if a hook was left in the middle. Part of filter.c.
 *
 * The rules are those of analysis/callstack/frames.c, with one difference. Only the last few frames
 * that were left are remembered, in case they come back. If a call continues in a function that it
 * has jumped to (IP_RULE_JUMP), the jump stands on top of the call's frame, and the function's
 * frame on top of the jump, all with the same stack pointer. These frames are a chain. The
 * outermost call of a chain decides whether the chain is recorded or left out.
 */
#ifndef RT_FRAMES_H
#define RT_FRAMES_H

#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/filter.h"
#include "runtime/ring.h"
#include "runtime/rt.h"

#define BELOW (1ull << 20) /* frames of one stack lie less than this below its innermost frame */
#define ABOVE (8ull << 10) /* and at most this above its outermost frame */

#define FRAMES_MAX 784u
#define QUEUE_MAX  192u
#define LEFT_MAX   64u
#define QUEUED_OUT 0x100u

enum frame_state {
	FRAME_OUT = 0,	   /* the call is left out, its exit too */
	FRAME_HELD = 1,	   /* its entry waits to be written */
	FRAME_WRITTEN = 2, /* its entry is in the ring */
	FRAME_LOST = 3,	   /* its entry found no room; its exit is lost too */
};

struct frame {
	uint64_t time, sp, caller;
	uint32_t number;
	uint16_t base; /* index of the outermost frame of this stack */
	uint8_t state;
	/* 1: the frame is a jump; its event is a tail exit, and `caller` is that event's stack
	 * pointer */
	uint8_t jump;
};

struct queued {
	uint64_t time, sp, caller;
	/* kind is written last, with QUEUED_OUT if the event's condition is not true; 0: the entry
	 * is not there */
	uint32_t number, kind;
};

/* A frame that was left and whose entry is in the ring. It may come back (coroutines, handlers on
 * stacks of their own). */
struct left {
	uint64_t sp;
	uint32_t group, used;
};

/* Lies in the area, which other processes may overwrite. The indexes are volatile, so that each is
 * read once, at the place where it is checked (frame_at). */
struct memory {
	volatile uint32_t n;	/* number of frames */
	volatile uint32_t held; /* frames below this index are not HELD */
	uint32_t over;		/* open calls without a frame, for which there was no room */
	volatile uint32_t next; /* next entry of left */
	/* slot->cur when frame `at` was about to be written; 0: it has been written */
	uint64_t writing;
	uint64_t queued; /* atomic for handlers: entries of queue that are taken */
	volatile uint32_t at;
	uint32_t chained; /* number of frames that are jumps, or that a jump leads to */
	uint32_t reserved[6];
	struct left left[LEFT_MAX];
	struct queued queue[QUEUE_MAX];
	struct frame frames[FRAMES_MAX];
};

_Static_assert(sizeof(struct memory) <= IP_SUBBUF_SIZE, "one sub-buffer");

/* The number that all parts and instances of one function share. */
static inline uint32_t group_of(uint32_t number)
{
	uint32_t group = rule_of(number).group;

	return group ? group : number;
}

/* Frame i; an index that is too large gives the last frame. */
static inline struct frame *frame_at(const struct memory *m, uint32_t i)
{
	return (struct frame *)&m->frames[i < FRAMES_MAX ? i : FRAMES_MAX - 1];
}

/* The number of frames. */
static inline uint32_t depth_of(const struct memory *m)
{
	uint32_t n = m->n;

	return n < FRAMES_MAX ? n : FRAMES_MAX;
}

/* The outermost frame of the stack that frame i lies in. */
static inline uint32_t outermost(const struct memory *m, uint32_t i)
{
	uint32_t base = *(volatile uint16_t *)&frame_at(m, i)->base;

	return base < i ? base : i;
}

/* Whether a call that has jumped continues in frame i. */
static inline int is_joined(const struct memory *m, uint32_t i)
{
	return i && frame_at(m, i - 1)->jump && frame_at(m, i - 1)->sp == frame_at(m, i)->sp;
}

/* The outermost call of the chain that frame i belongs to. */
static inline uint32_t base_of_chain(const struct memory *m, uint32_t i)
{
	while (i && (frame_at(m, i)->jump || is_joined(m, i)))
		i--;
	return i;
}

/* Removes the topmost frame. There must be one. */
static inline void take_off(struct memory *m)
{
	uint32_t i = depth_of(m) - 1, chained = m->chained;

	if (chained && (frame_at(m, i)->jump || is_joined(m, i)))
		m->chained = chained - 1;
	m->n = i;
}

/* The depth in calls: a function that was jumped to is as deep as the function that has jumped. */
static inline uint32_t calls_of(const struct memory *m)
{
	uint32_t n = depth_of(m), chained = m->chained;

	return chained < n ? n - chained : 0;
}

/* Whether sp lies in the stack of frame i. */
static int is_same_stack(const struct memory *m, uint32_t i, uint64_t sp)
{
	return sp <= frame_at(m, outermost(m, i))->sp + ABOVE && sp + BELOW > frame_at(m, i)->sp;
}

/* The frame of the call that ends; FRAMES_MAX: there is none. */
static uint32_t find(const struct memory *m, const struct rt_event *event)
{
	uint32_t group = group_of(event->number), found = FRAMES_MAX, n = depth_of(m), i = n;
	uint64_t sp = event->sp;

	/* the function has removed its frame: find the outermost one below sp */
	if (event->kind == IP_PROBE_TAIL_EXIT) {
		for (; i && frame_at(m, i - 1)->sp <= sp; i--)
			if (group_of(frame_at(m, i - 1)->number) == group &&
			    !frame_at(m, i - 1)->jump &&
			    (frame_at(m, i - 1)->sp < sp || found == FRAMES_MAX))
				found = i - 1;
		return found;
	}
	/* find the frame at exactly sp; skip a stack that lies above */
	while (i) {
		const struct frame *frame = frame_at(m, i - 1);

		if (frame->sp == sp && group_of(frame->number) == group && !frame->jump)
			return i - 1;
		i = frame->sp > sp ? outermost(m, i - 1) : i - 1;
	}
	if (rule_of(event->number).flags & IP_RULE_EXACT ||
	    (m->over && n && sp <= frame_at(m, n - 1)->sp))
		return FRAMES_MAX;
	/* find a frame that an alloca has moved, or an inlined instance whose function has removed
	 * its frame */
	for (i = n; i; i--) {
		const struct frame *frame = frame_at(m, i - 1);

		if (group_of(frame->number) == group && !frame->jump &&
		    is_same_stack(m, i - 1, sp) &&
		    (frame->sp > sp || (i == n && sp - frame->sp < ABOVE)))
			return i - 1;
	}
	return FRAMES_MAX;
}

static inline struct memory *memory_of(const struct ip_slot *slot)
{
	uint32_t taken = *(volatile uint32_t *)&slot->memory;

	return taken ? rt_memory(taken) : NULL;
}

/* The guard is set, by this hook or by the hook below. A handler that comes during the thread's
 * very first hook takes the memory, since it needs the queue in it. The hook then continues with
 * that memory. NULL: the pool is exhausted. */
static __attribute__((noinline, cold)) struct memory *take_memory(struct ip_slot *slot)
{
	uint32_t taken = rt_take_memory(), none = 0;

	if (taken && !__atomic_compare_exchange_n(&slot->memory, &none, taken, 0, __ATOMIC_ACQ_REL,
						  __ATOMIC_RELAXED))
		rt_give_memory(taken);
	return memory_of(slot);
}

static inline int is_queue_empty(const struct ip_slot *slot)
{
	const struct memory *m = memory_of(slot);

	return !m || !*(volatile const uint64_t *)&m->queued;
}

/* Whether words were reserved since cur was `writing`. Handlers put their events into the queue, so
 * everything that was done since then is this hook's work. Two changes of cur do not count: leaving
 * a sub-buffer, and taking the next one. A new sub-buffer has one word, which is never used. */
static int has_reserved(uint64_t writing, uint64_t cur)
{
	return cur != writing && cur >> IP_POSITION_BITS != IP_NO_SUBBUF &&
	       (cur & (IP_SUBBUF_WORDS - 1)) != 1;
}

/* A hook was left in the middle. The frame that it was about to write is still held back, unless
 * its record has reached the ring. The number of held frames is counted anew, since it is not known
 * between which two steps the hook was left. */
static void repair(struct ip_slot *slot, struct memory *m)
{
	uint32_t held = 0, at = m->at;

	if (m->writing && at < FRAMES_MAX) {
		struct frame *frame = frame_at(m, at);

		if (frame->state == FRAME_HELD && has_reserved(m->writing, slot->cur))
			frame->state = FRAME_WRITTEN;
		m->held = frame->state == FRAME_HELD ? at : at + 1;
	}
	if (m->n > FRAMES_MAX)
		m->n = FRAMES_MAX;
	for (uint32_t i = m->held, n = depth_of(m); i < n; i++)
		held += frame_at(m, i)->state == FRAME_HELD;
	m->chained = 0;
	for (uint32_t i = 0, n = depth_of(m); i < n; i++)
		m->chained += frame_at(m, i)->jump || is_joined(m, i);
	slot->held = held;
	cpu_store_order();
	m->writing = 0;
}

#endif
