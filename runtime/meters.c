/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and histograms (memory in common/rt_abi.h). hooks.S does by itself: counting in the thread's own block, entering a frame where
 * there is room, and leaving the topmost one by its exact stack pointer. The rest is done here, by the same rules.
 *
 * Open calls stand in a pile of frames, bounded, each with its stack pointer. Handlers of the same thread put theirs on top and take
 * them off again before they return. So plain stores suffice:
 *
 *   1. Enter: read top, store top + 1, fill the frame, its stack pointer last: without one it is nobody's, whatever a
 *      handler finds in it that comes before, or leaves behind that never comes back. A handler between the reading and the store leaves top as it
 *      was; frames that it has not left are dead.
 *   2. Leave: the frame of the function with the exit's stack pointer (kind EXIT: the same as the entry's; behind an alloca the entry's lies
 *      above; TAIL_EXIT: the entry's lies below, by 8 in placement fentry; the caller's may lie where the exit's does), the innermost where there are more. It is taken out
 *      wherever it stands: its duration is right. What stands above it stays: those are calls that longjmp or an exception has ended, or open
 *      ones on another stack (coroutines, handlers), and nothing tells which.
 *   3. No room: what lies below the new frame on its stack (BELOW) is gone; where there is nothing such, the oldest frame
 *      goes. Each counts as unmeasured: sum of the buckets + unmeasured + frames still open = calls.
 *   4. No frame: the call began before the recording, or its frame had to go (and was counted then).
 *
 * Frames that a new call of the same function at the same stack pointer leaves behind are never taken for it: the innermost wins.
 *
 * Self time. Each frame adds up what the measured calls in it took (inner); what is left of its own duration is its own.
 *
 *   5. A call that ends adds its duration to its caller's frame: the innermost below it in the pile that is not known to be gone. Gone are
 *      those on its stack (BELOW) with a smaller stack pointer: a caller's is never smaller. On another stack it is the
 *      call that a signal has interrupted, or that has resumed a coroutine: the time is none of its own either.
 *   6. What longjmp or an exception has ended stays in the pile, and may pass for the caller of what is called afterwards. So a frame that is
 *      left takes what frames above it on its stack have added up: they were called in it. One that rule 3 drops gives it to its caller.
 *   7. No self time is below 0: coroutines whose calls overlap may add up to more than the call that resumed them took.
 *
 * Hooks that outlive their session. A signal handler may hold a hook up, on top of it, over a detach and into the next session, whose rings
 * and blocks lie where this one's did. So whoever works in a block has the slot's guard meanwhile:
 *
 *   G1. Guard. Where another hook below has it, it stays that hook's, and is given back to it (record.c, step 7, tells when it is stale).
 *   G2. The slot must still be this thread's, in the session of the gate. If so, what was read so far (the duty's word, where the blocks are, what the
 *       header says of the user's payload) belongs together.
 *   G3. Work in the block, or in the shared one. Its address is not read again.
 *   G4. Give the guard back.
 *
 * A session that ends waits for guards a while. The next one takes a slot whose guard is still set out of use, and keeps clear of its block
 * (hotpatcher/blocks.h), and of the shared one where that tells about the user's payload: a hook that goes on at G3 writes where nobody else does. What is late between finding the slot and G1 ends at G2. Where
 * a guard was taken for stale the hook below may be there still (it is, if its stack lies below an alternate one): from then on the slot says so (oldest), and
 * counts as one with a guard.
 */
#include "runtime/meters.h"

#include "common/probe_list.h"
#include "include/iprobe/payload.h"
#include "runtime/arch/cpu.h"
#include "runtime/filter.h"
#include "runtime/fperf.h"
#include "runtime/rt.h"
#include "runtime/self.h"

#define SIGNAL_FRAME_MIN 512 /* as in record.c */
#define FRAME		 sizeof(struct ip_meters_frame)
#define BELOW		 (1ull << 20)
#define NEAR		 (64ull << 10) /* between an entry and an exit of one call that do not have one stack pointer */

_Static_assert(NEAR == FRAME_NEAR, "layout.h");

static struct ip_meters *block(uint32_t i)
{
	return (struct ip_meters *)((char *)rt_header + rt_header->meters + i * rt_header->meters_size);
}

void rt_meters_take(struct ip_slot *slot)
{
	uint32_t n = rt_header->nmeters, start = rt_header->meters_hint;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (start + i) % n;
		struct ip_meters *m = block(k);
		uint32_t expected = *(volatile uint32_t *)&m->state;

		if ((expected != IP_METERS_FREE && expected != IP_METERS_LEFT) ||
		    !__atomic_compare_exchange_n(&m->state, &expected, IP_METERS_OWNED, 0, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		rt_header->meters_hint = k + 1;
		m->slot = slot - rt_slots;
		m->top = 0;
		m->outmost = ~0ull;
		m->inner = 0;
		m->limit = rt_header->meters_depth * FRAME;
		slot->block = k;
		slot->meters = (uintptr_t)m;
		return;
	}
}

static struct ip_meters_frame *frame_at(struct ip_meters *m, uint64_t bytes)
{
	return (struct ip_meters_frame *)((char *)m->frames + bytes);
}

static struct ip_hist *hist_of(struct ip_meters *m, uint64_t duty)
{
	return (struct ip_hist *)((char *)m + IP_DUTY_OFFSET((uint32_t)duty));
}

static uint64_t top_of(const struct ip_meters *m)
{
	return *(const volatile uint64_t *)&m->top;
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

/* Whether a frame with stack pointer other is gone when one at sp is there that was entered later. */
static int is_gone(uint64_t other, uint64_t sp)
{
	return other < sp && sp - other < BELOW;
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

static void drop(struct ip_meters *m, uint64_t at)
{
	const struct ip_meters_frame *f = frame_at(m, at);

	if (f->sp) {
		cpu_increment_local32(&hist_of(m, f->duty)->unmeasured);
		cpu_add_local(inner_of_caller(m, at, f->sp), f->inner);
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
	if (top_of(m) >= m->limit)
		drop(m, 0);
}

static void enter(struct ip_meters *m, uint32_t duty, uint64_t sp)
{
	struct ip_meters_frame *f;
	uint64_t top = top_of(m);

	if (top >= m->limit) {
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

		if (f->duty != duty || !f->sp)
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

static void leave(struct ip_meters *m, uint32_t duty, uint32_t kind, uint64_t sp)
{
	uint64_t now = cpu_clock(), at = find(m, duty, kind, sp), time, ticks, inner;

	if (at == ~0ull)
		return;
	time = frame_at(m, at)->time;
	ticks = now > time ? now - time : 0;
	inner = take_inner(m, at);
	cpu_add_local(inner_of_caller(m, at, frame_at(m, at)->sp), ticks);
	take_out(m, at);
	add(hist_of(m, duty), ticks, inner);
}

/* What the header says of the user's payload. */
struct user {
	uint64_t call;
	uint32_t scratch, mask;
};

/*
 * The user's payload. It is compiled code that knows nothing of us, so it is never entered twice in a thread: one that runs into probes of its
 * own, or is interrupted by a handler that does, is left alone (busy holds the stack pointer of the hook it runs in; where a hook is not on top of that, a
 * handler has left it by longjmp).
 */
static void call_user(struct ip_slot *slot, const struct user *user, struct ip_meters *m,
		      struct ip_meters *shared, uint32_t word, uint32_t number, uint32_t kind, uint64_t sp)
{
	const struct ip_user_function *f =
		(const struct ip_user_function *)((char *)shared + IP_DUTY_OFFSET(word));
	struct iprobe_call call = {.size = sizeof(call),
				   .event = kind,
				   .number = number,
				   .thread = slot->tid,
				   .function = f->name,
				   .cell = (char *)m + IP_DUTY_OFFSET(word) + f->cell,
				   .scratch = user->scratch ? (char *)m + user->scratch : NULL};

	if (!user->call)
		return;
	if (m->busy && sp + SIGNAL_FRAME_MIN <= m->busy) {
		cpu_increment_local(&m->reentered);
		return;
	}
	if (kind == IP_PROBE_ENTRY || (kind == IP_PROBE_EXIT && f->flags & IP_RULE_EXACT))
		call.caller = (const void *)(uintptr_t)rt_call_site(f->flags, f->frame, sp);
	m->busy = sp;
	cpu_store_order();
	if (CPU_CALLS_USERS)
		rt_user_call(user->call, &call, user->mask);
	cpu_store_order();
	m->busy = 0;
}

static int counts(uint32_t duty)
{
	return duty == IP_DUTY_COUNT || duty == IP_DUTY_FPERF;
}

/* Step G3. m: the thread's own block, or NULL; shared: block 0, or NULL. */
static void work(struct ip_meters *m, struct ip_meters *shared, uint32_t word, uint32_t kind, uint64_t sp)
{
	if ((word & IP_DUTY_MASK) == IP_DUTY_COUNT) {
		if (m)
			cpu_increment_local((uint64_t *)((char *)m + IP_DUTY_OFFSET(word)));
		else if (shared)
			cpu_increment_shared((uint64_t *)((char *)shared + IP_DUTY_OFFSET(word)));
	} else if (!m) {
		if (shared && kind == IP_PROBE_ENTRY)
			__atomic_fetch_add(&hist_of(shared, word)->unmeasured, 1, __ATOMIC_RELAXED);
	} else if (kind == IP_PROBE_ENTRY) {
		enter(m, word, sp);
	} else {
		leave(m, word, kind, sp);
	}
}

int rt_meters_do(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp)
{
	uint32_t duty = ((volatile uint32_t *)rt_duties)[number] & IP_DUTY_MASK, word;
	uint64_t below = slot->guard, *last = NULL;
	uint32_t fperf = 0;
	struct ip_meters *m, *shared;
	struct user user = {0};
	int mine;

	if (duty == IP_DUTY_SILENT ||
	    (duty == IP_DUTY_COUNT && kind != IP_PROBE_ENTRY && kind != IP_PROBE_POINT) ||
	    (duty == IP_DUTY_HIST && kind == IP_PROBE_POINT))
		return 1;
	if ((duty == IP_DUTY_TIMED && kind == IP_PROBE_POINT) ||
	    (duty != IP_DUTY_COUNT && duty != IP_DUTY_HIST && duty != IP_DUTY_TIMED && duty != IP_DUTY_USER && duty != IP_DUTY_FPERF))
		return 0;
	/* G1 */
	/* number 0 is called by the hook below itself (fperf.c, rule 3) */
	if (below && number && !rt_is_nested(slot, sp)) {
		below = 0;
		slot->oldest = 1;
	}
	slot->guard = sp;
	cpu_store_order();
	word = ((volatile uint32_t *)rt_duties)[number];
	m = (struct ip_meters *)(uintptr_t)cpu_load_word(&slot->meters);
	shared = *(volatile uint32_t *)&rt_header->nmeters ? block(0) : NULL;
	if (duty == IP_DUTY_USER)
		user = (struct user){.call = cpu_load_word(&rt_header->user_call),
				     .scratch = *(volatile uint32_t *)&rt_header->user_scratch,
				     .mask = *(volatile uint32_t *)&rt_header->user_mask};
	else if (duty == IP_DUTY_FPERF)
		fperf = *(volatile uint32_t *)&rt_header->fperf;
	cpu_store_order();
	/* G2. The duty is read twice: it may change while probes are live. */
	mine = rt_self_slot() == slot;
	if (mine && (word & IP_DUTY_MASK) != duty && counts(word & IP_DUTY_MASK) && counts(duty)) {
		/* a quota has just been used up, or given: the call counts all the same */
		if (kind == IP_PROBE_ENTRY)
			work(m, shared, IP_DUTY(IP_DUTY_COUNT, IP_DUTY_OFFSET(word)), kind, sp);
	} else if (mine && (word & IP_DUTY_MASK) == duty) {
		if (duty == IP_DUTY_FPERF) {
			if (CPU_CALLS_USERS && m && shared)
				last = rt_fperf(m, shared, fperf, word, number, kind, sp);
			else if (kind == IP_PROBE_ENTRY)
				work(m, shared, IP_DUTY(IP_DUTY_COUNT, IP_DUTY_OFFSET(word)), kind, sp);
		} else if (duty != IP_DUTY_USER)
			work(m, shared, word, kind, sp);
		else if (m && shared)
			call_user(slot, &user, m, shared, word, number, kind, sp);
	}
	cpu_store_order();
	if (last) /* in the block: G3 */
		*last = cpu_clock();
	cpu_store_order();
	slot->guard = below;
	/* it may just have become one that is logged: this event, too */
	return !mine || ((word & IP_DUTY_MASK) != IP_DUTY_LOG && (word & IP_DUTY_MASK) != IP_DUTY_TIMED);
}
