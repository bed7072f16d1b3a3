/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and histograms (memory in common/abi/meters.h). hooks.S does three things by itself: it
 * counts in the thread's own block, enters a frame if there is room, and leaves the topmost frame
 * by its exact stack pointer. This file does the rest, by the same rules.
 *
 * Open calls stand in a stack of frames: open_calls.h, rules 1 to 10.
 *
 * Hooks that outlive their session. A signal handler may interrupt a hook and run until after a
 * detach, into the next session. The rings and blocks of that session lie at the same addresses. So
 * a hook holds the slot's guard while it works in a block:
 *
 *   G1. Take the guard. If another hook below holds it, that hook still owns it and gets it back
 *       (record.c, step 7, tells when a guard is stale).
 *   G2. The slot must still be this thread's, in the session of the gate. If so, what was read so
 *       far belongs together: the duty's word, where the blocks are, and what the header says about
 *       the user's payload.
 *   G3. Work in the block, or in the shared block. Its address is not read again.
 *   G4. Give the guard back.
 *
 * A session that ends waits a while for guards. The next session takes a slot whose guard is still
 * set out of use, and does not use its block (hotpatcher/shm/meter_blocks.h). It does not use the
 * shared block either, where that holds data of the user's payload. So a hook that continues at G3
 * writes where no other hook does. A hook that is delayed between finding the slot and G1 ends at
 * G2. If a guard was taken for stale, the hook below may still be there (it is, if its stack lies
 * below an alternate one). From then on the slot says so (oldest), and counts as a slot with a
 * guard.
 */
#include "runtime/meters.h"

#include "common/elf/probe_list.h"
#include "include/iprobe/payload.h"
#include "runtime/arch/cpu.h"
#include "runtime/filter.h"
#include "runtime/fperf.h"
#include "runtime/open_calls.h"
#include "runtime/rt.h"
#include "runtime/self.h"

#define SIGNAL_FRAME_MIN 512 /* as in record.c */

struct ip_meters *rt_blocks[IP_AREA_SLOTS];

struct ip_meters *rt_block(uint32_t i)
{
	const volatile struct ip_rt_private *p = &rt_private;
	uint64_t size = p->meters_size, at = p->meters + i * size, end = p->end;

	if (i >= p->nmeters || at > end || end - at < size)
		return NULL;
	return (struct ip_meters *)((char *)rt_header + at);
}

void *rt_meters_at(struct ip_meters *m, uint64_t offset, uint64_t size)
{
	static char nowhere[RT_METERS_DUMMY] __attribute__((aligned(64)));
	uint64_t at = (char *)m - (char *)rt_header + offset,
		 end = *(volatile uint64_t *)&rt_private.end;

	return at <= end && size <= end - at ? (char *)m + offset : nowhere;
}

void rt_meters_take(struct ip_slot *slot)
{
	uint32_t n = *(volatile uint32_t *)&rt_header->nmeters,
		 start = *(volatile uint32_t *)&rt_header->meters_hint,
		 most = *(volatile uint32_t *)&rt_private.nmeters;

	n = n < most ? n : most;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = (start + i) % n;
		struct ip_meters *m = rt_block(k);
		uint32_t expected = m ? *(volatile uint32_t *)&m->state : IP_METERS_PART;

		if ((expected != IP_METERS_FREE && expected != IP_METERS_LEFT) ||
		    !__atomic_compare_exchange_n(&m->state, &expected, IP_METERS_OWNED, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		rt_header->meters_hint = k + 1;
		m->slot = slot - rt_slots;
		m->top = 0;
		m->outmost = ~0ull;
		m->inner = 0;
		m->jumped = 0;
		slot->block = k;
		rt_blocks[slot - rt_slots] = m;
		return;
	}
}

/* What the session has of the user's payload. */
struct user {
	uint64_t call;
	uint32_t scratch, mask, cell;
};

/*
 * The user's payload. It is compiled code that knows nothing of the runtime, so a thread never
 * enters it twice. It may reach probes itself, or a handler that interrupts it may. Such a probe
 * does not call it again. busy holds the stack pointer of the hook that it runs in. If a hook is
 * not on top of that stack pointer, a handler has left the payload by longjmp.
 */
static void call_user(struct ip_slot *slot, const struct user *user, struct ip_meters *m,
		      struct ip_meters *shared, uint32_t word, uint32_t number, uint32_t kind,
		      uint64_t sp)
{
	const volatile struct ip_user_function *f =
		rt_meters_at(shared, IP_DUTY_OFFSET(word), sizeof(*f));
	uint64_t cell = (uint64_t)IP_DUTY_OFFSET(word) + f->cell;
	uint16_t flags = f->flags;
	struct iprobe_call call = {.size = sizeof(call),
				   .event = kind,
				   .number = number,
				   .thread = slot->tid,
				   .function = (const char *)f->name,
				   .cell = (char *)m + cell,
				   .scratch = user->scratch ? (char *)m + user->scratch : NULL};
	uint64_t at = (char *)m - (char *)rt_header + cell,
		 end = *(volatile uint64_t *)&rt_private.end;

	if (!user->call || at > end || end - at < user->cell)
		return;
	if (m->busy && sp + SIGNAL_FRAME_MIN <= m->busy) {
		cpu_increment_local(&m->reentered);
		return;
	}
	if (kind == IP_PROBE_ENTRY || (kind == IP_PROBE_EXIT && flags & IP_RULE_EXACT))
		call.caller = (const void *)(uintptr_t)rt_call_site(flags, f->frame, sp);
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
static void work(struct ip_meters *m, struct ip_meters *shared, uint32_t word, uint32_t kind,
		 uint64_t sp)
{
	if ((word & IP_DUTY_MASK) == IP_DUTY_COUNT) {
		if (m)
			cpu_increment_local(
				rt_meters_at(m, IP_DUTY_OFFSET(word), sizeof(uint64_t)));
		else if (shared)
			cpu_increment_shared(
				rt_meters_at(shared, IP_DUTY_OFFSET(word), sizeof(uint64_t)));
	} else if (!m) {
		if (shared && kind == IP_PROBE_ENTRY)
			__atomic_fetch_add(&hist_of(shared, word)->unmeasured, 1, __ATOMIC_RELAXED);
	} else if (kind == IP_PROBE_ENTRY) {
		enter(m, word, sp);
	} else {
		leave(m, word, kind, sp);
	}
}

/* Step G3 for a function that jumps, and for one that is jumped to (open_calls.h, rules 8 and 10).
 * base: the word of the function that jumps. */
static void chain(struct ip_meters *m, uint32_t word, uint32_t base, uint32_t number, uint32_t kind,
		  uint64_t sp)
{
	int jumps = word & IP_DUTY_JUMP & ~IP_DUTY_MASK;

	if (jumps && (base & IP_DUTY_MASK) != IP_DUTY_JOIN && !is_measured(base))
		return;
	if (!jumps || (base & IP_DUTY_MASK) == IP_DUTY_JOIN)
		base = IP_DUTY(IP_DUTY_JOIN, (number - !!jumps) << 4);
	if (jumps)
		jump(m, base, sp);
	else if (kind == IP_PROBE_ENTRY)
		join(m, base, sp);
	else
		leave(m, base, kind, sp);
}

/* Step G3 for a function that is only counted. It also tells FPerf about the probe, which may
 * matter to samples of other functions. fperf: as in rt_private. */
static void count(struct ip_meters *m, struct ip_meters *shared, uint32_t fperf, uint32_t word,
		  uint32_t kind, uint64_t sp)
{
	word = IP_DUTY(IP_DUTY_COUNT, IP_DUTY_OFFSET(word));
	if (kind == IP_PROBE_ENTRY || kind == IP_PROBE_POINT)
		work(m, shared, word, kind, sp);
	if (CPU_CALLS_USERS && fperf && m && shared && m->jumped && kind != IP_PROBE_POINT)
		rt_fperf_pass(m, shared, fperf, word,
			      kind == IP_PROBE_ENTRY  ? RT_FPERF_ENTRY
			      : kind == IP_PROBE_EXIT ? RT_FPERF_EXIT
						      : RT_FPERF_TAIL_EXIT,
			      sp);
}

int rt_meters_do(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp)
{
	uint32_t duty, word, base = 0;
	uint64_t below = cpu_load_word(&slot->guard), *last = NULL;
	uint32_t fperf = *(volatile uint32_t *)&rt_private.fperf;
	struct ip_meters *m, *shared;
	struct user user = {0};
	int mine;

	if (number >= IP_AREA_DUTIES)
		return 1;
	duty = ((volatile uint32_t *)rt_duties)[number] & IP_DUTY_MASK;

	if (duty == IP_DUTY_SILENT ||
	    (duty == IP_DUTY_COUNT && kind != IP_PROBE_ENTRY && kind != IP_PROBE_POINT && !fperf) ||
	    ((duty == IP_DUTY_HIST || duty == IP_DUTY_JOIN) && kind == IP_PROBE_POINT))
		return 1;
	if ((duty == IP_DUTY_TIMED && kind == IP_PROBE_POINT) ||
	    (duty != IP_DUTY_COUNT && duty != IP_DUTY_HIST && duty != IP_DUTY_TIMED &&
	     duty != IP_DUTY_USER && duty != IP_DUTY_FPERF && duty != IP_DUTY_JOIN))
		return 0;
	/* G1 */
	/* number 0: the hook below has called this one itself (fperf.c, step 3) */
	if (below && number && !rt_is_nested(slot, sp)) {
		below = 0;
		slot->oldest = 1;
	}
	slot->guard = sp;
	cpu_store_order();
	word = ((volatile uint32_t *)rt_duties)[number];
	m = *(struct ip_meters *volatile *)&rt_blocks[slot - rt_slots];
	shared = rt_block(0);
	if (duty == IP_DUTY_USER)
		user = (struct user){.call = cpu_load_word(&rt_private.user_call),
				     .scratch = *(volatile uint32_t *)&rt_private.user_scratch,
				     .mask = *(volatile uint32_t *)&rt_private.user_mask,
				     .cell = *(volatile uint32_t *)&rt_private.user_cell};
	else if (word == IP_DUTY_JUMP && number)
		base = ((volatile uint32_t *)rt_duties)[number - 1];
	/* of the gate's session, like the rest */
	fperf = *(volatile uint32_t *)&rt_private.fperf;
	cpu_store_order();
	/* G2. The duty is read twice: it may change while probes are live. */
	mine = rt_self_slot() == slot;
	if (mine && (word & IP_DUTY_MASK) != duty && counts(word & IP_DUTY_MASK) && counts(duty)) {
		/* the quota has just been used up, or renewed: the call counts in both cases */
		count(m, shared, fperf, word, kind, sp);
	} else if (mine && (word & IP_DUTY_MASK) == duty) {
		if (duty == IP_DUTY_FPERF) {
			if (CPU_CALLS_USERS && m && shared)
				last = rt_fperf(m, shared, fperf, word, number, kind, sp);
			else if (kind == IP_PROBE_ENTRY)
				work(m, shared, IP_DUTY(IP_DUTY_COUNT, IP_DUTY_OFFSET(word)), kind,
				     sp);
		} else if (duty == IP_DUTY_JOIN) {
			if (m && !fperf)
				chain(m, word, base, number, kind, sp);
			else if (CPU_CALLS_USERS && m && shared && word == IP_DUTY_JUMP &&
				 counts(base & IP_DUTY_MASK))
				rt_fperf_pass(m, shared, fperf, base, RT_FPERF_JUMP, sp);
		} else if (duty == IP_DUTY_COUNT) {
			count(m, shared, fperf, word, kind, sp);
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
	/* The function may just have become one that is logged: then this event is logged too. A
	 * jump is logged if the function that jumps is. */
	if (word == IP_DUTY_JUMP)
		word = base;
	return !mine ||
	       ((word & IP_DUTY_MASK) != IP_DUTY_LOG && (word & IP_DUTY_MASK) != IP_DUTY_TIMED);
}
