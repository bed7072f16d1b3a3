/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pile of frames in a thread's block: the calls that are open, and what becomes of their times.
 * Part of meters.c.
 *
 * Open calls stand in a pile of frames, bounded, each with its stack pointer. Handlers of the same
 * thread put theirs on top and take them off again before they return. So plain stores suffice:
 *
 *   1. Enter: read top, store top + 1, fill the frame, its stack pointer last: without one it is
 *      nobody's, whatever a handler finds in it that comes before, or leaves behind that never
 *      comes back. A handler between the reading and the store leaves top as it was; frames that it
 *      has not left are dead.
 *   2. Leave: the frame of the function with the exit's stack pointer (kind EXIT: the same as the
 *      entry's; behind an alloca the entry's lies above; TAIL_EXIT: the entry's lies below, by 8 in
 *      placement fentry; the caller's may lie where the exit's does), the innermost where there are
 *      more. It is taken out wherever it stands: its duration is right. What stands above it stays:
 *      those are calls that longjmp or an exception has ended, or open ones on another stack
 *      (coroutines, handlers), and nothing tells which.
 *   3. No room: what lies below the new frame on its stack (BELOW) is gone; where there is nothing
 *      such, the oldest frame goes. Each counts as unmeasured: sum of the buckets + unmeasured +
 *      frames still open = calls.
 *   4. No frame: the call began before the recording, or its frame had to go (and was counted
 *      then).
 *
 * Frames that a new call of the same function at the same stack pointer leaves behind are never
 * taken for it: the innermost wins.
 *
 * Self time. Each frame adds up what the measured calls in it took (inner); what is left of its own
 * duration is its own.
 *
 *   5. A call that ends adds its duration to its caller's frame: the innermost below it in the pile
 *      that is not known to be gone. Gone are those on its stack (BELOW) with a smaller stack
 *      pointer: a caller's is never smaller. On another stack it is the call that a signal has
 *      interrupted, or that has resumed a coroutine: the time is none of its own either.
 *   6. What longjmp or an exception has ended stays in the pile, and may pass for the caller of
 *      what is called afterwards. So a frame that is left takes what frames above it on its stack
 *      have added up: they were called in it. One that rule 3 drops gives it to its caller.
 *   7. No self time is below 0: coroutines whose calls overlap may add up to more than the call
 *      that resumed them took.
 *
 * Tail calls. A call lasts until it returns to its caller, whoever executes the return. Where a
 * function jumps to one that has probes, its tail exit has a number of its own, with IP_DUTY_JUMP:
 *
 *   8. Jump: the frame stays, with JUMPED(sp) for a stack pointer, which is odd as no other is, and
 *      is below what it was: so hooks.S does not take a frame off that stands on it, and leaves
 *      that to C. What it is to return to is noted beside its duty. Where the chain of jumps has
 *      been in the function before, at the same stack pointer (a loop), its frame goes instead, as
 *      unmeasured: chains are as long as there are functions in them.
 *   9. Leave: what stands directly below, jumped at the same stack pointer and is to return to
 *      where this returns to, ends too, one by one.
 *  10. Functions that nobody has selected, but others jump to (IP_DUTY_JOIN), have a frame where
 *      they were jumped to, and no histogram: what their calls took is handed on to who has jumped.
 *      Both ends of a call have one stack pointer, exactly.
 *
 * Where what was jumped to ended by longjmp or an exception its frame stays, and stands between
 * those that have jumped and what comes next: they are never taken for its chain.
 */
#ifndef RT_OPEN_CALLS_H
#define RT_OPEN_CALLS_H

#include "common/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/meters.h"
#include "runtime/rt.h"

#define FRAME sizeof(struct ip_meters_frame)
#define BELOW (1ull << 20)
/* between an entry and an exit of one call that do not have one stack pointer */
#define NEAR	   (64ull << 10)
#define JUMPED(sp) ((sp)-1)

_Static_assert(NEAR == FRAME_NEAR, "layout.h");

static struct ip_meters_frame *frame_at(struct ip_meters *m, uint64_t bytes)
{
	return (struct ip_meters_frame *)((char *)m->frames + bytes);
}

static struct ip_hist *hist_of(struct ip_meters *m, uint64_t duty)
{
	return rt_meters_at(m, IP_DUTY_OFFSET((uint32_t)duty), sizeof(struct ip_hist));
}

static struct ip_hist_tails *tails_of(struct ip_meters *m, uint64_t duty)
{
	return rt_meters_at(m, IP_DUTY_OFFSET((uint32_t)duty), sizeof(struct ip_hist_tails));
}

/* Whether the call goes on in a function that it has jumped to. */
static int is_jumped(const struct ip_meters_frame *f)
{
	return f->sp & 1;
}

/* What lies at a hook's own stack pointer, where a function begins and where it ends: half of where
 * it returns to. */
static uint32_t returns_to(uint64_t sp)
{
	return *(const volatile uint32_t *)(uintptr_t)sp;
}

static uint64_t limit_of_frames(void)
{
	return *(const volatile uint64_t *)&rt_private.frames;
}

/* As it is, or as it could be. */
static uint64_t top_of(const struct ip_meters *m)
{
	uint64_t top = *(const volatile uint64_t *)&m->top, limit = limit_of_frames();

	return top < limit ? top - top % FRAME : limit;
}

/* Takes a frame out of the pile. */
static void take_out(struct ip_meters *m, uint64_t at)
{
	uint64_t top = top_of(m);

	for (; at + FRAME < top; at += FRAME)
		*frame_at(m, at) = *frame_at(m, at + FRAME);
	frame_at(m, at)->sp = 0;
	cpu_store_order();
	m->top = at;
}

/* Whether a frame with stack pointer other is gone when one at sp is there that was entered
 * later. */
static int is_gone(uint64_t other, uint64_t sp)
{
	return other < sp && sp - other < BELOW && other != JUMPED(sp);
}

/* Rule 5: where the caller's frame at (sp: its stack pointer) adds up what its calls took. */
static uint64_t *inner_of_caller(struct ip_meters *m, uint64_t at, uint64_t sp)
{
	while (at) {
		struct ip_meters_frame *f = frame_at(m, at -= FRAME);

		if (f->sp && !is_gone(f->sp, sp))
			return &f->inner;
	}
	return &m->inner;
}

/* Whether the duty's functions have histograms. */
static int is_measured(uint64_t duty)
{
	return (duty & IP_DUTY_MASK) == IP_DUTY_HIST || (duty & IP_DUTY_MASK) == IP_DUTY_TIMED;
}

static void drop(struct ip_meters *m, uint64_t at)
{
	const struct ip_meters_frame *f = frame_at(m, at);

	if (f->sp) {
		if (is_measured(f->duty))
			cpu_increment_local32(&hist_of(m, f->duty)->unmeasured);
		cpu_add_local(inner_of_caller(m, at, f->sp), f->inner);
		if (is_jumped(f))
			cpu_add_local(&m->jumped, -1ull);
	}
	take_out(m, at);
}

/* Rule 6. What the frame at has in it, those above included; they have nothing then. */
static uint64_t take_inner(struct ip_meters *m, uint64_t at)
{
	uint64_t sp = frame_at(m, at)->sp, inner = frame_at(m, at)->inner, top = top_of(m);

	for (at += FRAME; at < top; at += FRAME) {
		struct ip_meters_frame *f = frame_at(m, at);

		if (!f->sp || !is_gone(f->sp, sp))
			continue;
		inner += f->inner;
		f->inner = 0;
	}
	return inner;
}

/* Rule 3. */
static void make_room(struct ip_meters *m, uint64_t sp)
{
	for (uint64_t at = top_of(m); at;) {
		const struct ip_meters_frame *f = frame_at(m, at -= FRAME);

		if (f->sp < sp && sp - f->sp < BELOW)
			drop(m, at);
	}
	if (top_of(m) >= limit_of_frames())
		drop(m, 0);
}

static void enter(struct ip_meters *m, uint32_t duty, uint64_t sp)
{
	struct ip_meters_frame *f;
	uint64_t top = top_of(m);

	if (top >= limit_of_frames()) {
		make_room(m, sp);
		top = top_of(m);
	}
	f = frame_at(m, top);
	m->top = top + FRAME;
	cpu_store_order();
	f->duty = duty;
	f->inner = 0;
	f->time = cpu_clock();
	cpu_store_order();
	f->sp = sp;
}

/* Rule 2. The frame's place; ~0: there is none. */
static uint64_t find(struct ip_meters *m, uint32_t duty, uint32_t kind, uint64_t sp)
{
	uint64_t best = ~0ull, nearest = NEAR;

	for (uint64_t at = top_of(m); at;) {
		const struct ip_meters_frame *f = frame_at(m, at -= FRAME);
		uint64_t away;

		if (f->duty != duty || !f->sp || is_jumped(f))
			continue;
		if (f->sp == sp && kind == IP_PROBE_EXIT)
			return at;
		away = kind == IP_PROBE_EXIT ? f->sp - sp : sp - f->sp;
		if (away && away < nearest) {
			nearest = away;
			best = at;
		}
	}
	return best;
}

/* To value, where it is less; a handler that comes in between may do it, too. */
static void raise(uint32_t *p, uint32_t value)
{
	uint32_t seen = *(volatile uint32_t *)p;

	while (seen < value &&
	       !__atomic_compare_exchange_n(p, &seen, value, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void add(struct ip_hist *h, uint64_t ticks, uint64_t inner)
{
	uint32_t i = ticks >> IP_HIST_SHIFT ? 64 - __builtin_clzll(ticks) - IP_HIST_SHIFT : 0;
	uint32_t packed = ip_hist_pack(ticks);

	if (ticks >> (IP_HIST_SHIFT + IP_HIST_BUCKETS - 1) == 0)
		h->recent = i + IP_HIST_SHIFT - 1;
	cpu_increment_local32(&h->buckets[i < IP_HIST_BUCKETS ? i : IP_HIST_BUCKETS - 1]);
	cpu_add_local(&h->sum, ticks);
	cpu_add_local(&h->self, ticks > inner ? ticks - inner : 0);
	raise(&h->max, packed);
	raise(&h->min, ~packed);
}

/* The call of the frame at ends; sp: its own, whatever stands there now. tailed: at a tail exit. */
static void end(struct ip_meters *m, uint64_t at, uint64_t sp, uint64_t now, int tailed)
{
	struct ip_meters_frame *f = frame_at(m, at);
	uint64_t duty = f->duty, time = f->time, ticks = now > time ? now - time : 0;
	uint64_t inner = take_inner(m, at);

	/* of a function that nobody has selected the time is its caller's */
	cpu_add_local(inner_of_caller(m, at, sp), is_measured(duty) ? ticks : inner);
	if (is_jumped(f))
		cpu_add_local(&m->jumped, -1ull);
	take_out(m, at);
	if (!is_measured(duty))
		return;
	add(hist_of(m, duty), ticks, inner);
	/* who ends so has tail exits, and room for that */
	if (tailed)
		cpu_add_local(&tails_of(m, duty)->tailed, 1);
}

/* Rule 9: those below at that have jumped to the call that has just ended there, with stack pointer
 * sp. */
static void end_chain(struct ip_meters *m, uint64_t at, uint64_t sp, uint64_t now, int tailed)
{
	while (at) {
		const struct ip_meters_frame *f = frame_at(m, at -= FRAME);

		if (f->sp != JUMPED(sp) || f->duty >> 32 != returns_to(sp))
			return;
		end(m, at, sp, now, tailed);
	}
}

/* Rule 8. sp: as a tail exit has it. */
static void jump(struct ip_meters *m, uint32_t duty, uint64_t sp)
{
	uint64_t at = find(m, duty, IP_PROBE_TAIL_EXIT, sp), below;
	struct ip_meters_frame *f;

	sp -= sizeof(long);
	if (at == ~0ull || frame_at(m, at)->sp != sp || sp & 1)
		return;
	for (below = at; below && frame_at(m, below - FRAME)->sp == JUMPED(sp); below -= FRAME)
		if ((uint32_t)frame_at(m, below - FRAME)->duty == duty &&
		    frame_at(m, below - FRAME)->duty >> 32 == returns_to(sp)) {
			drop(m, at);
			return;
		}
	f = frame_at(m, at);
	f->duty = duty | (uint64_t)returns_to(sp) << 32;
	cpu_store_order();
	f->sp = JUMPED(sp);
	cpu_add_local(&m->jumped, 1);
}

/* Rule 10. A call of a function that nobody has selected: its frame matters where a call goes on in
 * it. */
static void join(struct ip_meters *m, uint32_t duty, uint64_t sp)
{
	uint64_t top = top_of(m);

	if (top && frame_at(m, top - FRAME)->sp == JUMPED(sp))
		enter(m, duty, sp);
}

static void leave(struct ip_meters *m, uint32_t duty, uint32_t kind, uint64_t sp)
{
	uint64_t now = cpu_clock(), at = find(m, duty, kind, sp);

	/* most calls of those that nobody has selected have no frame: another call's is not
	 * theirs */
	if (at == ~0ull ||
	    (!is_measured(duty) &&
	     frame_at(m, at)->sp != (kind == IP_PROBE_EXIT ? sp : sp - sizeof(long))))
		return;
	end(m, at, frame_at(m, at)->sp, now, kind == IP_PROBE_TAIL_EXIT);
	/* by the hook's own stack pointer: the frame is shared memory */
	if (m->jumped)
		end_chain(m, at, kind == IP_PROBE_EXIT ? sp : sp - sizeof(long), now,
			  kind == IP_PROBE_TAIL_EXIT);
}

#endif
