/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The careful path: what is left out of a recording, and where calls come from.
 *
 *   1. A thread that the user has not chosen (--tid, --thread) records nothing.
 *   2. Nothing is recorded before a function has been called a given number of times (--start-on),
 *      and nothing after that for another one (--stop-on).
 *   3. Nothing is recorded outside of functions that are named (--within): flow.h.
 *   4. A call is left out if it is too deep (--depth), if sampling does not choose it (--sample),
 *      if its condition is not true (--when), or if it is too short (--min-duration). Its entry and
 * its exit are treated alike: the decision at the entry stands in a stack of frames, where the exit
 * finds it. How long a call lasts cannot be known at its entry. So the entry is held back. It is
 * written, with the time that it had, as soon as the call has lasted long enough. The entries of
 * the calls around it are written before it. Nothing of the thread is written in between, so the
 * stream stays in time order.
 *
 * Each event that leaves nothing is counted in the slot: recorded + lost + filtered = happened.
 *
 * The stack of frames is a sub-buffer of the pool. Each thread takes one at its first event. The
 * collector gives it back when the thread has ended. Calls may be nested deeper than the stack of
 * frames has room for. Those are recorded without a frame, except for those that --depth leaves
 * out.
 *
 * Signal handlers. While a hook changes the stack of frames it holds the guard (record.c). A
 * handler that comes in the meantime puts its events into a queue, each with its time. The hook
 * takes them from there before it gives the guard back, and looks once more afterwards. If a
 * handler leaves by longjmp, the guard stays set. The next hook that is not on top of it continues
 * with the stack of frames as it is. Each step leaves the stack consistent. One step is not a
 * single store: writing what was held back. That step notes what it is doing (writing).
 *
 * All indexes are checked where they are read: on an alternate stack a guard may be taken for stale
 * although it is not.
 */
#include "runtime/filter.h"

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "runtime/arch/cpu.h"
#include "runtime/flow.h"
#include "runtime/frames.h"
#include "runtime/payload.h"

#define PAGE 4096ull

static inline void leave_out(struct ip_slot *slot)
{
	cpu_increment_local(&slot->filtered);
}

/* The frame's size comes from the area. So the address computed from it may be unmapped. */
uint64_t rt_call_site(uint32_t flags, uint32_t frame, uint64_t sp)
{
	uintptr_t at, ret = 0;

	if (flags & IP_RULE_SITE)
		at = sp - sizeof(uintptr_t);
	else if (frame)
		at = sp + frame - sizeof(uintptr_t);
	else
		return 0;
	if (flags & IP_RULE_SITE || at / PAGE == (sp - sizeof(uintptr_t)) / PAGE ||
	    at / PAGE == sp / PAGE)
		return *(const volatile uintptr_t *)at;
	return rt_read(at, &ret, sizeof(ret)) == sizeof(ret) ? ret : 0;
}

/* Step 2. Whether the event is to be recorded. */
static int is_time(uint32_t number, uint32_t kind)
{
	struct ip_filters *f = rt_filters;
	uint32_t triggers =
		kind == IP_PROBE_ENTRY ? rule_of(number).flags & (IP_RULE_START | IP_RULE_STOP) : 0;

	if (__atomic_load_n(&f->stopped, __ATOMIC_RELAXED))
		return 0;
	if (f->start_after && !__atomic_load_n(&f->started, __ATOMIC_RELAXED)) {
		if (!(triggers & IP_RULE_START) ||
		    __atomic_add_fetch(&f->start_calls, 1, __ATOMIC_RELAXED) < f->start_after)
			return 0;
		__atomic_store_n(&f->started, 1, __ATOMIC_RELAXED);
	}
	if (triggers & IP_RULE_STOP) {
		uint32_t calls = __atomic_add_fetch(&f->stop_calls, 1, __ATOMIC_RELAXED);

		/* the call that ends the recording is the last one recorded */
		if (calls >= f->stop_after)
			__atomic_store_n(&f->stopped, 1, __ATOMIC_RELAXED);
		return calls <= f->stop_after;
	}
	return 1;
}

/* Writes the held entries below index end. */
static void write_held(struct ip_slot *slot, struct memory *m, uint32_t end)
{
	uint32_t i;

	while ((i = m->held) < end && i < FRAMES_MAX) {
		struct frame *frame = frame_at(m, i);
		struct rt_event event = {.time = frame->time,
					 .sp = frame->sp,
					 .caller = frame->caller,
					 .number = frame->number,
					 .kind = IP_PROBE_ENTRY};

		if (frame->jump) {
			event.sp = frame->caller;
			event.caller = 0;
			event.kind = IP_PROBE_TAIL_EXIT;
		}
		if (frame->state != FRAME_HELD) {
			m->held = i + 1;
			continue;
		}
		m->at = i;
		cpu_store_order();
		m->writing = *(volatile uint64_t *)&slot->cur;
		cpu_store_order();
		frame->state = rt_put(slot, &event, 0) ? FRAME_WRITTEN : FRAME_LOST;
		cpu_store_order();
		m->held = i + 1;
		slot->held--;
		cpu_store_order();
		m->writing = 0;
	}
}

/* Writes the held entries of calls that have lasted long enough by now, and those below them. */
static void write_old(struct ip_slot *slot, struct memory *m, uint64_t now)
{
	uint64_t least = rt_filters->min_ticks;
	uint32_t end = m->held;

	/* inner calls began later */
	for (uint32_t i = end, n = depth_of(m); i < n && now - frame_at(m, i)->time >= least; i++)
		end = i + 1;
	write_held(slot, m, end);
}

/* Removes the frames from index keep on: their calls were left without an exit. */
static void leave(struct ip_slot *slot, struct memory *m, uint32_t keep)
{
	uint32_t n;

	while ((n = depth_of(m)) > keep) {
		struct frame *frame = frame_at(m, n - 1);

		if (frame->state == FRAME_HELD) {
			slot->held--;
			leave_out(slot);
		} else if (frame->state == FRAME_WRITTEN && !frame->jump) {
			struct left *left = &m->left[m->next++ % LEFT_MAX];

			left->sp = frame->sp;
			left->group = group_of(frame->number);
			left->used = 1;
		}
		take_off(m);
	}
	if (m->held > keep)
		m->held = keep;
}

/* Removes the frames whose calls have ended when a frame begins at sp. room: bytes that the new
 * frame needs below its caller's. Returns the base of the new frame. */
static uint32_t make_way(struct ip_slot *slot, struct memory *m, uint64_t sp, uint64_t room)
{
	uint32_t n = depth_of(m), i = n, base;

	/* a stack further below: the frames on top of it have been left */
	while (i && !is_same_stack(m, i - 1, sp))
		i = outermost(m, i - 1);
	if (!i)
		return n; /* a stack of its own: the open frames stay */
	base = outermost(m, i - 1);
	while (i > base && frame_at(m, i - 1)->sp < sp + room &&
	       !(frame_at(m, i - 1)->jump && frame_at(m, i - 1)->sp == sp))
		i--;
	if (i < n)
		leave(slot, m, i);
	return base;
}

/* A call continues in a function that it has been in before: a loop. The frames since then are
 * removed. i: index of the frame with which the function was entered. */
static void enter_loop(struct ip_slot *slot, struct memory *m, uint32_t i,
		       const struct rt_event *event)
{
	uint32_t n, state = frame_at(m, i)->state;

	if (state == FRAME_WRITTEN)
		write_held(slot, m, depth_of(m));
	while ((n = depth_of(m)) > i + 1) {
		if (frame_at(m, n - 1)->state == FRAME_HELD) {
			slot->held--;
			leave_out(slot);
		}
		take_off(m);
	}
	if (m->held > i + 1)
		m->held = i + 1;
	if (state == FRAME_WRITTEN)
		rt_put(slot, event, 0);
	else if (state == FRAME_LOST)
		cpu_increment_local(&slot->lost);
	else
		leave_out(slot);
}

/* The frame of the same function in the topmost chain; FRAMES_MAX: there is none. */
static uint32_t find_in_chain(const struct memory *m, uint32_t number)
{
	uint32_t group = group_of(number), i = depth_of(m);

	while (i--) {
		if (!frame_at(m, i)->jump && group_of(frame_at(m, i)->number) == group)
			return i;
		if (!frame_at(m, i)->jump && !is_joined(m, i))
			break;
	}
	return FRAMES_MAX;
}

static void enter(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	struct ip_filters *f = rt_filters;
	struct ip_filter_rule rule = rule_of(event->number);
	uint32_t base = make_way(slot, m, event->sp, rule.flags & IP_RULE_INLINED ? 0 : 8),
		 every = rule.every, n = depth_of(m);
	uint32_t joined = n && frame_at(m, n - 1)->jump && frame_at(m, n - 1)->sp == event->sp,
		 again;
	uint8_t state = FRAME_WRITTEN, before = joined ? frame_at(m, n - 1)->state : FRAME_HELD;

	if (!joined && rule.flags & IP_RULE_SILENT) {
		leave_out(slot);
		return;
	}
	again = joined ? find_in_chain(m, event->number) : FRAMES_MAX;
	if (again < FRAMES_MAX) {
		enter_loop(slot, m, again, event);
		return;
	}
	if (before != FRAME_HELD)
		state = before == FRAME_OUT ? FRAME_OUT : FRAME_WRITTEN;
	else if (f->depth && !joined && calls_of(m) >= f->depth)
		state = FRAME_OUT;
	else if (event->out && !joined && n < FRAMES_MAX)
		state = FRAME_OUT;
	else if (every > 1 && !joined && n < FRAMES_MAX &&
		 __atomic_fetch_add(&rt_rules[event->number].count, 1, __ATOMIC_RELAXED) % every)
		state = FRAME_OUT;
	else if (f->min_ticks && !event->payload && !(rule.flags & IP_RULE_NO_EXIT))
		state = FRAME_HELD;
	if (rule.flags & IP_RULE_NO_EXIT || n >= FRAMES_MAX) {
		/* no exit will come, or there is no room for what the exit needs */
		m->over += !(rule.flags & IP_RULE_NO_EXIT);
		if (state == FRAME_OUT) {
			leave_out(slot);
			return;
		}
		write_held(slot, m, n);
		rt_put(slot, event, 0);
		return;
	}
	m->over = 0;
	if (state == FRAME_WRITTEN) {
		write_held(slot, m, n);
		if (!rt_put(slot, event, 0))
			state = FRAME_LOST;
	}
	*frame_at(m, n) = (struct frame){event->time, event->sp, event->caller, event->number, base,
					 state,	      0};
	m->chained += joined;
	cpu_store_order();
	m->n = n + 1;
	if (state == FRAME_OUT)
		leave_out(slot);
	else if (state == FRAME_HELD)
		slot->held++;
	if (state != FRAME_HELD && m->held == n)
		m->held = n + 1;
}

/* An exit that belongs to no open frame. */
static void exit_of_none(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	uint32_t group = group_of(event->number), n = depth_of(m);

	if (m->over && n && event->sp <= frame_at(m, n - 1)->sp) {
		m->over--;
		/* --depth keeps no more frames than there is room for */
		if (rt_filters->depth)
			leave_out(slot);
		else
			rt_put(slot, event, 0);
		return;
	}
	for (uint32_t i = 0; i < LEFT_MAX; i++)
		if (m->left[i].used && m->left[i].group == group &&
		    (m->left[i].sp == event->sp ||
		     (event->kind == IP_PROBE_TAIL_EXIT && m->left[i].sp + 8 == event->sp))) {
			m->left[i].used = 0;
			write_held(slot, m, m->n);
			rt_put(slot, event, 0);
			return;
		}
	leave_out(slot); /* its call began before the recording, or was left out */
}

/* The call of the topmost frame continues in the function that it jumps to. The jump gets the same
 * state as the call. There must be room. */
static void jump(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	uint32_t n = depth_of(m);
	const struct frame *call = frame_at(m, n - 1);
	uint8_t state = call->state;

	if (state == FRAME_WRITTEN) {
		write_held(slot, m, n);
		if (!rt_put(slot, event, 0))
			state = FRAME_LOST;
	} else if (state == FRAME_LOST) {
		cpu_increment_local(&slot->lost);
	} else if (state == FRAME_OUT) {
		leave_out(slot);
	}
	*frame_at(m, n) = (struct frame){event->time, call->sp, event->sp, event->number,
					 call->base,  state,	1};
	m->chained++;
	cpu_store_order();
	m->n = n + 1;
	if (state == FRAME_HELD)
		slot->held++;
	else if (m->held == n)
		m->held = n + 1;
}

static void leave_call(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	uint32_t i = find(m, event), state, base, n;

	if (i >= FRAMES_MAX) {
		exit_of_none(slot, m, event);
		return;
	}
	leave(slot, m, i + 1);
	m->over = 0;
	if (rule_of(event->number).flags & IP_RULE_JUMP && depth_of(m) < FRAMES_MAX) {
		jump(slot, m, event);
		return;
	}
	/* the call ends together with the calls that have jumped to it */
	base = base_of_chain(m, i);
	if (base < i && frame_at(m, base)->state == FRAME_WRITTEN)
		write_held(slot, m, depth_of(m));
	state = frame_at(m, i)->state;
	for (; (n = depth_of(m)) > base; take_off(m))
		if (frame_at(m, n - 1)->state == FRAME_HELD) {
			slot->held--;
			leave_out(slot);
		}
	i = base;
	if (state == FRAME_HELD) {
		leave_out(slot);
	} else if (state == FRAME_LOST) {
		cpu_increment_local(&slot->lost);
	} else if (state == FRAME_OUT) {
		leave_out(slot);
	}
	if (m->held > i)
		m->held = i;
	if (state == FRAME_WRITTEN)
		rt_put(slot, event, 0);
}

/* Step 4. */
static void filter_event(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	uint32_t n = m->n = depth_of(m);

	if (m->held > n)
		m->held = n;
	write_old(slot, m, event->time);
	if (event->kind == IP_PROBE_ENTRY) {
		enter(slot, m, event);
	} else if (event->kind == IP_PROBE_POINT) {
		uint32_t every = rule_of(event->number).every;

		if (event->out || (rt_filters->depth && calls_of(m) > rt_filters->depth) ||
		    (every > 1 &&
		     __atomic_fetch_add(&rt_rules[event->number].count, 1, __ATOMIC_RELAXED) %
			     every)) {
			leave_out(slot);
		} else {
			write_held(slot, m, m->n);
			rt_put(slot, event, 0);
		}
	} else {
		leave_call(slot, m, event);
	}
}

/* Handles the events that handlers have queued, in the order of time. */
static void take_queue(struct ip_slot *slot, struct memory *m)
{
	uint64_t done = 0;

	while (!cpu_cmpxchg_local(&m->queued, done, 0)) {
		uint64_t n = *(volatile uint64_t *)&m->queued;

		for (; done < n && done < QUEUE_MAX; done++) {
			struct queued *q = &m->queue[done];
			struct rt_event event = {.time = q->time,
						 .sp = q->sp,
						 .caller = q->caller,
						 .number = q->number,
						 .kind = q->kind & ~QUEUED_OUT,
						 .out = (q->kind & QUEUED_OUT) != 0};

			q->kind = 0;
			if (event.kind)
				filter_event(slot, m, &event);
			else
				cpu_increment_local(
					&slot->lost); /* its handler left in the middle */
		}
		/* Fewer entries than before: a handler on an alternate stack took this hook's guard
		 * for stale, and handled the queue itself. */
		if (n > QUEUE_MAX || n < done)
			done = n;
	}
}

/* Called in a handler, on top of a hook. The time is read before the entry is taken, as for a
 * record. */
static void queue(struct ip_slot *slot, struct memory *m, const struct rt_event *event)
{
	for (;;) {
		uint64_t n = *(volatile uint64_t *)&m->queued, now = rt_stamp(slot);
		struct queued *q;

		if (n >= QUEUE_MAX) {
			cpu_increment_local(&slot->lost);
			return;
		}
		if (!cpu_cmpxchg_local(&m->queued, n, n + 1))
			continue;
		q = &m->queue[n];
		q->time = now;
		q->sp = event->sp;
		q->caller = event->caller;
		q->number = event->number;
		cpu_store_order();
		q->kind = event->kind | (event->out ? QUEUED_OUT : 0);
		return;
	}
}

/* Step 1. */
static inline int is_silent(const struct ip_slot *slot)
{
	return *(volatile uint32_t *)&slot->wanted != IP_SLOT_WANTED;
}

/* Steps 4 and those behind it, for a hook at sp. */
static void record_event(struct ip_slot *slot, uint64_t sp, struct rt_event *event)
{
	struct ip_filters *f = rt_filters;
	struct memory *m = memory_of(slot);

	if (slot->guard && rt_is_nested(slot, sp)) {
		if (!f->frames)
			rt_put(slot, event, 1);
		else if (m || (m = take_memory(slot)))
			queue(slot, m, event);
		else
			cpu_increment_local(&slot->lost);
		return;
	}
	if (slot->guard && m)
		repair(slot, m);
	slot->guard = sp;
	cpu_store_order();
	if (!f->frames) {
		rt_put(slot, event, 0);
		cpu_store_order();
		slot->guard = 0;
		return;
	}
	if (!m)
		m = take_memory(slot);
	if (m) {
		do { /* what a handler queues after the clock was read is later */
			take_queue(slot, m);
			event->time = rt_stamp(slot);
		} while (!is_queue_empty(slot));
		filter_event(slot, m, event);
	} else {
		cpu_increment_local(&slot->lost);
	}
	for (;;) {
		m = memory_of(slot); /* a handler may have found memory when this hook found none */
		if (m)
			take_queue(slot, m);
		cpu_store_order();
		slot->guard = 0;
		cpu_store_order();
		if (is_queue_empty(slot))
			return;
		slot->guard = sp;
		cpu_store_order();
	}
}

void rt_careful(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp,
		const struct rt_payload *payload, int out)
{
	struct rt_event event = {
		.sp = sp, .number = number, .kind = kind, .payload = payload, .out = out};
	struct rt_event gone = {.number = 0};
	int within = 1;

	/* step 3 comes first: where the thread is does not depend on the others */
	if (slot->modes & IP_MODE_WITHIN)
		within = rt_is_within(slot, &event, &gone);
	if (is_silent(slot) || !is_time(number, kind)) {
		leave_out(slot);
		return;
	}
	if (gone.number)
		record_event(slot, sp, &gone);
	if (!within) {
		leave_out(slot);
		return;
	}
	if (rt_filters->callsite && kind == IP_PROBE_ENTRY)
		event.caller = rt_call_site(rule_of(number).flags, rule_of(number).frame, sp);
	record_event(slot, sp, &event);
}
