/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of frames in a thread's block: the calls that are open, and how their times are
 * counted. Part of meters.c.
 *
 * Each open call has a frame with its stack pointer. The number of frames is bounded. Signal
 * handlers of the same thread put their frames on top, and remove them before they return. So plain
 * stores suffice:
 *
 *   1. Enter: read top, store top + 1, fill the frame, and store its stack pointer last. A frame
 *      without a stack pointer belongs to no call, so it does not matter what a handler finds in it
 *      that comes before that store. Nor does it matter what a handler that never returns leaves in
 *      it. A handler that comes between the reading and the store of top leaves top as it was. The
 *      frames that such a handler has not left are dead.
 *   2. Leave: find the frame of the function that belongs to the exit's stack pointer. For kind
 *      EXIT it is the same as the entry's; after an alloca the entry's lies above it. For kind
 *      TAIL_EXIT the entry's lies below it, by 8 in placement fentry; the caller's frame may lie
 *      where the exit's does. If several frames match, take the innermost. The frame is removed
 *      wherever it stands: its duration is right. The frames above it stay. They belong to calls
 *      that longjmp or an exception has ended, or to open calls on another stack (coroutines,
 *      handlers). Nothing tells which.
 *   3. No room: drop the frames that lie below the new frame on its stack (BELOW), since their
 *      calls have ended. If there are none, drop the oldest frame. Each dropped frame counts as
 *      unmeasured: sum of the buckets + unmeasured + frames still open = calls.
 *   4. No frame: the call began before the recording, or its frame was dropped (and counted then).
 *
 * A new call of the same function at the same stack pointer may leave older frames behind. Those
 * are never taken for the new call: the innermost frame wins.
 *
 * Self time. Each frame adds up the time of the measured calls in it (inner). The rest of its
 * duration is its self time.
 *
 *   5. A call that ends adds its duration to its caller's frame. That is the innermost frame below
 *      it whose call is not known to have ended. A call has ended if its frame is on the same stack
 *      (BELOW) and has a smaller stack pointer: a caller's stack pointer is never smaller. On
 *      another stack, the frame is that of the call that a signal has interrupted, or that has
 *      resumed a coroutine: the time is not that call's self time either.
 *   6. A frame whose call longjmp or an exception has ended stays. It may pass for the caller of
 *      functions that are called afterwards. So a frame that is left also takes the sums of the
 *      frames above it on its stack: those calls were made in it. A frame that rule 3 drops gives
 *      its sum to its caller.
 *   7. No self time is below 0. Coroutines whose calls overlap may add up to more than the duration
 *      of the call that resumed them.
 *
 * Tail calls. A call lasts until control returns to its caller, whichever function executes the
 * return. If a function jumps to one that has probes, its tail exit has a number of its own, with
 * IP_DUTY_JUMP:
 *
 *   8. Jump: the frame stays. Its stack pointer becomes JUMPED(sp). That value is odd, as no stack
 *      pointer is, and lies below the old value. So hooks.S does not remove a frame that stands on
 *      top of it, and leaves that to C. The address that the call returns to is noted beside the
 *      duty. The chain of jumps may have been in the function before, at the same stack pointer (a
 *      loop). Then this frame is dropped instead, as unmeasured. So a chain is at most as long as
 *      the number of functions in it.
 *   9. Leave: a frame directly below ends too, if it has jumped at the same stack pointer and is to
 *      return to the same address. This repeats, frame by frame.
 *  10. Functions that were not selected, but that others jump to (IP_DUTY_JOIN), have a frame only
 *      if they were jumped to, and no histogram. The time of the calls in them is passed on to the
 *      function that has jumped. The entry and the exit of such a call have exactly the same stack
 *      pointer.
 *
 * If a function that was jumped to ends by longjmp or an exception, its frame stays. It then stands
 * between the frames that have jumped and the next frame. So they are never taken for the chain of
 * that next frame.
 */
#ifndef RT_OPEN_CALLS_H
#define RT_OPEN_CALLS_H

#include "common/elf/probe_list.h"
#include "runtime/arch/cpu.h"
#include "runtime/meters.h"
#include "runtime/rt.h"

#define FRAME sizeof(struct ip_meters_frame)
#define BELOW (1ull << 20)
/* largest distance between an entry and an exit of one call whose stack pointers differ */
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

/* Whether the call continues in a function that it has jumped to. */
static int is_jumped(const struct ip_meters_frame *f)
{
	return f->sp & 1;
}

/* The word at a hook's own stack pointer, where a function begins or ends: the lower half of the
 * address that it returns to. */
static uint32_t returns_to(uint64_t sp)
{
	return *(const volatile uint32_t *)(uintptr_t)sp;
}

static uint64_t limit_of_frames(void)
{
	return *(const volatile uint64_t *)&rt_private.frames;
}

/* m->top, limited to a value that is possible. */
static uint64_t top_of(const struct ip_meters *m)
{
	uint64_t top = *(const volatile uint64_t *)&m->top, limit = limit_of_frames();

	return top < limit ? top - top % FRAME : limit;
}

/* Removes a frame. */
static void take_out(struct ip_meters *m, uint64_t at)
{
	uint64_t top = top_of(m);

	for (; at + FRAME < top; at += FRAME)
		*frame_at(m, at) = *frame_at(m, at + FRAME);
	frame_at(m, at)->sp = 0;
	cpu_store_order();
	m->top = at;
}

/* Whether the call of a frame with stack pointer `other` has ended, if a call at sp that was
 * entered later is there. */
static int is_gone(uint64_t other, uint64_t sp)
{
	return other < sp && sp - other < BELOW && other != JUMPED(sp);
}

/* Rule 5: the member in which the caller of the frame `at` adds up the time of its calls. sp: the
 * frame's stack pointer. */
static uint64_t *inner_of_caller(struct ip_meters *m, uint64_t at, uint64_t sp)
{
	while (at) {
		struct ip_meters_frame *f = frame_at(m, at -= FRAME);

		if (f->sp && !is_gone(f->sp, sp))
			return &f->inner;
	}
	return &m->inner;
}

/* Whether functions with this duty have histograms. */
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

/* Rule 6. Returns the sum of the frame `at` and of the frames above it on its stack, and sets the
 * sums of those above to 0. */
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

/* Rule 2. Returns the offset of the frame; ~0: there is none. */
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

/* Raises *p to value if it is less. A handler that comes in between may do the same. */
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

/* Ends the call of the frame `at`. sp: its stack pointer, whatever the frame says now. tailed: it
 * ends at a tail exit. */
static void end(struct ip_meters *m, uint64_t at, uint64_t sp, uint64_t now, int tailed)
{
	struct ip_meters_frame *f = frame_at(m, at);
	uint64_t duty = f->duty, time = f->time, ticks = now > time ? now - time : 0;
	uint64_t inner = take_inner(m, at);

	/* if the function was not selected, the time belongs to its caller */
	cpu_add_local(inner_of_caller(m, at, sp), is_measured(duty) ? ticks : inner);
	if (is_jumped(f))
		cpu_add_local(&m->jumped, -1ull);
	take_out(m, at);
	if (!is_measured(duty))
		return;
	add(hist_of(m, duty), ticks, inner);
	/* a function that ends in this way has tail exits, and room for that counter */
	if (tailed)
		cpu_add_local(&tails_of(m, duty)->tailed, 1);
}

/* Rule 9: ends the frames below `at` that have jumped to the call that has just ended there, with
 * stack pointer sp. */
static void end_chain(struct ip_meters *m, uint64_t at, uint64_t sp, uint64_t now, int tailed)
{
	while (at) {
		const struct ip_meters_frame *f = frame_at(m, at -= FRAME);

		if (f->sp != JUMPED(sp) || f->duty >> 32 != returns_to(sp))
			return;
		end(m, at, sp, now, tailed);
	}
}

/* Rule 8. sp: as at a tail exit. */
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

/* Rule 10. A call of a function that was not selected: it needs a frame only if another call
 * continues in it. */
static void join(struct ip_meters *m, uint32_t duty, uint64_t sp)
{
	uint64_t top = top_of(m);

	if (top && frame_at(m, top - FRAME)->sp == JUMPED(sp))
		enter(m, duty, sp);
}

static void leave(struct ip_meters *m, uint32_t duty, uint32_t kind, uint64_t sp)
{
	uint64_t now = cpu_clock(), at = find(m, duty, kind, sp);

	/* most calls of functions that were not selected have no frame: do not take another
	 * call's */
	if (at == ~0ull ||
	    (!is_measured(duty) &&
	     frame_at(m, at)->sp != (kind == IP_PROBE_EXIT ? sp : sp - sizeof(long))))
		return;
	end(m, at, frame_at(m, at)->sp, now, kind == IP_PROBE_TAIL_EXIT);
	/* uses the hook's own stack pointer, since the frame is shared memory */
	if (m->jumped)
		end_chain(m, at, kind == IP_PROBE_EXIT ? sp : sp - sizeof(long), now,
			  kind == IP_PROBE_TAIL_EXIT);
}

#endif
