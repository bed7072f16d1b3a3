/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing records. The hooks (arch/ARCH/hooks.S) do the common case of it by themselves, by the
 * same steps; what is not common comes here.
 *
 * One writer a thread, plus the signal handlers that interrupt it. The protocol (memory in
 * common/abi/ring.h, record layout in common/trace_format.h):
 *
 *   1. The thread's slot is valid only for the session in the gate. Else claim one, or, where the
 *      gate is 0 (no session, or we are a forked child: the kernel wiped the gate), do nothing,
 *      unless the session follows forks (rt_follow_fork).
 *   2. guard != 0: we run in a signal handler on top of another hook of this thread: nested path,
 *      step 6.
 *   3. guard = our stack pointer. From here to step 5 the collector knows a hook is in flight.
 *   4. Read cur, then the clock, note the stack pointer, and reserve by cmpxchg of cur. It fails
 *      exactly if a handler recorded in between; then start again, with a new time. So records lie
 *      in time order, and what steps 4 read (epoch, last_sp) was still true when the words became
 *      ours. Then fill the words: a handler that comes now reserves words behind ours, with a later
 *      time.
 *   5. guard = 0. x86 keeps the stores in order: who sees guard == 0 sees the words filled.
 *   6. Nested: the same, but always an extended record (the hook below may or may not have noted
 *      its stack pointer), it forces the next one to be extended too (epoch = ~0), and it never
 *      hands a full sub-buffer to the collector: the hook below may still have to fill words in it.
 *   7. A handler that left by longjmp leaves guard set for ever. Between a hook and a handler on
 *      top of it lie the red zone and the signal frame, more than 900 bytes (asm/sigcontext.h);
 *      stacks grow down. So a hook whose stack pointer is not below guard by that much is not on
 *      top of the hook that set it; that hook is gone: take the guard over. On an alternate stack
 *      that lies above the interrupted one this conclusion may be wrong: the sub-buffer in use is
 *      marked suspect and the collector does not hand it out again in this session, so that the
 *      words which the hook below fills late do no harm.
 *
 * With coarse time (IP_MODE_COARSE) the hooks reserve by addition, which takes less time than
 * comparing, and is undone where it was in vain:
 *
 *   A1. Only for a compact record, with no hook below (2), and with the stamp of the record before:
 *       epoch is that stamp in such a session, so that one comparison tells. Anything else comes
 *       here, where words are reserved as ever.
 *   A2. Steps 3 and 4, but cur is increased by one instruction that tells what it was (not locked).
 *       As it was read: the word is ours, and what was read was still true, as in step 4.
 *   A3. Else a handler has recorded meanwhile, and the word is the one behind. The addition is
 *       undone, by cmpxchg, and rt_record() starts again. That fails if another handler has
 *       recorded since: then the word stays, is never filled, and is the event, a lost one. (A hook
 *       may be sure of no other word: a hook that took its guard for stale may have handed the
 *       sub-buffer over.) Where there was no room any more, or no sub-buffer, the addition must do
 *       no harm: so the last words of a sub-buffer (IP_SUBBUF_SPARE) are no room, and without a
 *       sub-buffer the position is that of the first of them. Whoever finds it beyond sets it back.
 *
 * Nothing here allocates, locks or calls out, nor does what it calls: claim.c at a thread's first
 * event, subbufs.c where a sub-buffer is full.
 */
#include <stddef.h>

#include "common/probe_list.h"
#include "common/trace_format.h"
#include "runtime/arch/cpu.h"
#include "runtime/filter.h"
#include "runtime/meters.h"
#include "runtime/ring.h"
#include "runtime/rt.h"
#include "runtime/self.h"

#define SIGNAL_FRAME_MIN 512

_Static_assert(offsetof(struct ip_rt_private, place_last) == PRIVATE_PLACE_LAST &&
		       offsetof(struct ip_rt_private, frames) == PRIVATE_FRAMES &&
		       offsetof(struct ip_rt_private, nsubbufs) == PRIVATE_NSUBBUFS &&
		       sizeof(struct ip_slot) == 1 << SLOT_SHIFT &&
		       offsetof(struct ip_slot, modes) == SLOT_MODES &&
		       offsetof(struct ip_area_clock, now) == 0 &&
		       IP_SESSION_MARK == SESSION_MARK && IP_MODE_CAREFUL == MODE_CAREFUL &&
		       IP_MODE_COARSE == MODE_COARSE && IP_MODE_PAYLOADS == MODE_PAYLOADS &&
		       IP_MODE_MONOTONIC == MODE_MONOTONIC &&
		       offsetof(struct ip_meters, top) == METERS_TOP &&
		       offsetof(struct ip_meters, frames) == METERS_FRAMES &&
		       sizeof(struct ip_meters_frame) == METERS_FRAME &&
		       offsetof(struct ip_meters_frame, sp) == FRAME_SP &&
		       offsetof(struct ip_meters_frame, time) == FRAME_TIME &&
		       offsetof(struct ip_meters_frame, duty) == FRAME_DUTY &&
		       offsetof(struct ip_meters_frame, inner) == FRAME_INNER &&
		       IP_DUTY_LOG == DUTY_LOG && IP_DUTY_COUNT == DUTY_COUNT &&
		       IP_DUTY_HIST == DUTY_HIST && IP_DUTY_JOIN == DUTY_JOIN &&
		       IP_DUTY_JUMP == (DUTY_JUMP_BIT | DUTY_JOIN) &&
		       offsetof(struct ip_meters, jumped) == METERS_JUMPED &&
		       offsetof(struct ip_hist, sum) == HIST_SUM &&
		       offsetof(struct ip_hist, self) == HIST_SELF &&
		       offsetof(struct ip_hist, max) == HIST_MAX &&
		       offsetof(struct ip_hist, min) == HIST_MIN &&
		       offsetof(struct ip_hist, recent) == HIST_RECENT &&
		       offsetof(struct ip_hist, buckets) == HIST_BUCKETS &&
		       offsetof(struct ip_hist_tails, tailed) == HIST_TAILED &&
		       IP_HIST_BUCKETS == HIST_LAST + 1 && IP_HIST_SHIFT == HIST_SHIFT,
	       "layout.h");
_Static_assert(offsetof(struct ip_slot, cur) == SLOT_CUR &&
		       offsetof(struct ip_slot, guard) == SLOT_GUARD &&
		       offsetof(struct ip_slot, last_sp) == SLOT_LAST_SP &&
		       offsetof(struct ip_slot, epoch) == SLOT_EPOCH &&
		       offsetof(struct ip_slot, state) == SLOT_STATE &&
		       offsetof(struct ip_slot, tid) == SLOT_STATE + 4 &&
		       offsetof(struct ip_slot, session) == SLOT_SESSION &&
		       IP_SLOT_CLAIMED == SLOT_CLAIMED &&
		       offsetof(struct ip_gate, session) == GATE_SESSION &&
		       TIME_BITS == IP_TIME_BITS && NUMBER_BITS == IP_NUMBER_BITS &&
		       SP_SHIFT == IP_SP_SHIFT && SP_WINDOW == IP_SP_WINDOW &&
		       SUBBUF_WORDS == IP_SUBBUF_WORDS && 1 << SUBBUF_SHIFT == IP_SUBBUF_SIZE &&
		       POSITION_BITS == IP_POSITION_BITS && NO_SUBBUF == IP_NO_SUBBUF &&
		       SUBBUF_SPARE == IP_SUBBUF_SPARE,
	       "layout.h");

/* Coarse time comes from a line that iprobe refreshes from outside (struct ip_area_clock): it
 * never goes back either, and stands still in between, so that many records have one stamp, in
 * their order. The kernel's clock costs a system call, which a thread under seccomp might be
 * ended for: as soon as iprobe sees one, the line stands still ahead of all stamps until the
 * session ends. One that only refuses the call may come before iprobe has seen it: then time
 * stands still where it was. A handler that has read a later time in between makes us read
 * again. */
static __attribute__((noinline, cold)) uint64_t other_clock(struct ip_slot *slot)
{
	uint64_t now, last;

	if (slot->modes & IP_MODE_COARSE)
		return cpu_load_word(&rt_clock->now);
	do {
		last = slot->modes & IP_MODE_PAYLOADS ? 0 : cpu_load_word(&slot->last_stamp);
		now = rt_may_read() ? cpu_monotonic() : 0;
		if (!now)
			now = cpu_load_word(&rt_clock->now);
		if (now <= last)
			return last;
	} while (!(slot->modes & IP_MODE_PAYLOADS) &&
		 !cpu_cmpxchg_local(&slot->last_stamp, last, now));
	return now;
}

static inline uint64_t clock_of(struct ip_slot *slot)
{
	return rt_unlikely(slot->modes & (IP_MODE_COARSE | IP_MODE_MONOTONIC)) ? other_clock(slot)
									       : cpu_clock();
}

/* What slot->epoch is to be after a record at that time, and whether it tells that the upper bits
 * are others. */
static inline uint64_t epoch_at(const struct ip_slot *slot, uint64_t now)
{
	return is_coarse(slot) ? now : now >> IP_TIME_BITS;
}

static inline int is_another_epoch(const struct ip_slot *slot, uint64_t now)
{
	return now >> IP_TIME_BITS != (is_coarse(slot) ? slot->epoch >> IP_TIME_BITS : slot->epoch);
}

/* Fills the words of an extended record; number: with the stack pointer's bits. caller: 0 where it
 * is not recorded. */
static void fill_extended(uint64_t *word, uint32_t number, uint32_t kind, uint64_t sp, uint64_t now,
			  const struct rt_payload *payload, uint64_t caller)
{
	if (payload || caller) {
		uint32_t n = payload ? payload->n : 0;

		/* first what tells how long it is, so that one that is never finished can be
		 * skipped */
		word[IP_PAYLOAD_HEAD - 1] =
			(payload ? payload->tells : 0) +
			(caller ? IP_PAYLOAD_WORD(1, 0, 0) | IP_PAYLOAD_CALLER : 0);
		for (uint32_t i = 0; i < n; i++)
			word[IP_PAYLOAD_HEAD + i] = payload->words[i];
		if (caller)
			word[IP_PAYLOAD_HEAD + n] = caller;
		cpu_store_order();
		kind += IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
	}
	/* in this order, so that one that is never finished shows: none of the three is ever
	 * zero */
	cpu_store_word(&word[0], now << 32 | (kind + IP_ID_EXT_BASE) << 3 | IP_ID_EXTENDED);
	cpu_store_order();
	cpu_store_word(&word[1], (uint64_t)number << 32 | now >> 32);
	cpu_store_order();
	cpu_store_word(&word[2], sp);
}

static __attribute__((noinline, cold)) void record_extended(struct ip_slot *slot, uint32_t number,
							    uint32_t kind, uint64_t sp,
							    int outermost,
							    const struct rt_payload *payload)
{
	uint64_t words = payload ? IP_PAYLOAD_HEAD + payload->n : IP_EXT_WORDS;

	for (;;) {
		uint64_t cur = *(volatile uint64_t *)&slot->cur;
		uint64_t now;

		if (!has_room(slot, cur, words)) {
			if (rt_change_subbuf(slot, cur, outermost))
				continue;
			cpu_increment_local(&slot->lost);
			return;
		}
		now = clock_of(slot);
		slot->last_sp = sp;
		slot->epoch = outermost ? epoch_at(slot, now) : ~0ull;
		cpu_store_order();
		if (!cpu_cmpxchg_local(&slot->cur, cur, cur + words))
			continue;
		cpu_add_local16(&rt_subbufs[SUBBUF(cur)].surplus, words - 1);
		fill_extended(word_at(cur),
			      number | (uint32_t)(sp >> IP_SP_SHIFT) << IP_NUMBER_BITS, kind, sp,
			      now, payload, 0);
		return;
	}
}

/* A session that is careful (filter.c) comes here for each record. Its words are reserved as in
 * step 4; a time that was given is not read again. */
int rt_put(struct ip_slot *slot, const struct rt_event *event, int nested)
{
	uint64_t values = event->payload ? event->payload->n : 0, extra = event->caller ? 1 : 0,
		 sp = event->sp;
	uint32_t number = event->number | (uint32_t)(sp >> IP_SP_SHIFT) << IP_NUMBER_BITS;

	for (;;) {
		uint64_t cur = *(volatile uint64_t *)&slot->cur, words = 1;
		uint64_t now = event->time ? event->time : clock_of(slot), *word;

		/* a guard was taken for stale that is not */
		if (event->time && now < slot->last_time)
			now = slot->last_time;
		if (event->payload || extra)
			words = IP_PAYLOAD_HEAD + values + extra;
		else if (nested || is_another_epoch(slot, now) ||
			 sp - slot->last_sp + IP_SP_WINDOW / 2 >= IP_SP_WINDOW)
			words = IP_EXT_WORDS;
		if (!has_room(slot, cur, words)) {
			slot->epoch = ~0ull;
			if (rt_change_subbuf(slot, cur, !nested))
				continue;
			cpu_increment_local(&slot->lost);
			return 0;
		}
		slot->last_sp = sp;
		slot->epoch = nested ? ~0ull : epoch_at(slot, now);
		cpu_store_order();
		if (!cpu_cmpxchg_local(&slot->cur, cur, cur + words)) {
			slot->epoch = ~0ull;
			continue;
		}
		cpu_add_local16(&rt_subbufs[SUBBUF(cur)].surplus, words - 1);
		if (event->time)
			slot->last_time = now;
		word = word_at(cur);
		if (words == 1) {
			cpu_store_word(word,
				       (uint64_t)number << 32 | (uint32_t)(now << 3 | event->kind));
			return 1;
		}
		fill_extended(word, number, event->kind, sp, now, event->payload, event->caller);
		return 1;
	}
}

uint64_t rt_stamp(struct ip_slot *slot)
{
	return clock_of(slot);
}

static void suspect(uint64_t subbuf)
{
	if (subbuf < rt_nsubbufs())
		rt_subbufs[subbuf].suspect = 1;
}

int rt_is_nested(struct ip_slot *slot, uint64_t sp)
{
	if (sp + SIGNAL_FRAME_MIN <= slot->guard)
		return 1;
	suspect(SUBBUF(cpu_load_word(&slot->cur)));
	suspect(cpu_load_word(&slot->leaving) - 1);
	slot->epoch = ~0ull;
	return 0;
}

/* Steps 6 and 7. Returns 1 where the guard was stale and is ours now. */
static __attribute__((noinline, cold)) int nested(struct ip_slot *slot, uint32_t number,
						  uint32_t kind, uint64_t sp,
						  const struct rt_payload *payload)
{
	if (sp + SIGNAL_FRAME_MIN <= slot->guard) {
		record_extended(slot, number, kind, sp, 0, payload);
		return 0;
	}
	return !rt_is_nested(slot, sp);
}

static inline __attribute__((always_inline)) void
record(uint32_t number, uint32_t kind, uint64_t sp, const struct rt_payload *payload)
{
	struct ip_slot *slot;

	/* 1 */
	slot = rt_self_slot();
	if (rt_unlikely(!slot)) {
		slot = rt_claim_slot();
		if (!slot)
			return;
	}
	if (rt_unlikely(slot->modes & IP_MODE_PAYLOADS) && rt_meters_do(slot, number, kind, sp))
		return;
	/* a trial of fperf's (fperf_read.c), whose session has just ended */
	if (rt_unlikely(!number))
		return;
	if (payload && payload->session != IP_SESSION_NUMBER(slot->session))
		payload = NULL;
	if (rt_unlikely(slot->modes & IP_MODE_CAREFUL)) {
		rt_careful(slot, number, kind, sp, payload);
		return;
	}
	/* 2 */
	if (rt_unlikely(slot->guard) && !nested(slot, number, kind, sp, payload))
		return;
	/* 3 */
	slot->guard = sp;
	cpu_store_order();
	/* 4 */
	for (;;) {
		uint64_t cur = *(volatile uint64_t *)&slot->cur;
		uint64_t now = clock_of(slot);

		if (rt_unlikely(payload || !has_room(slot, cur, 1) || is_another_epoch(slot, now) ||
				sp - slot->last_sp + IP_SP_WINDOW / 2 >= IP_SP_WINDOW)) {
			record_extended(slot, number, kind, sp, 1, payload);
			break;
		}
		slot->last_sp = sp;
		slot->epoch = epoch_at(slot, now);
		cpu_store_order();
		if (rt_unlikely(!cpu_cmpxchg_local(&slot->cur, cur, cur + 1))) {
			/* a handler that took our guard for stale has not said so, and last_sp is
			 * not its own any more */
			slot->epoch = ~0ull;
			continue;
		}
		cpu_store_word(word_at(cur),
			       (uint64_t)(number | (uint32_t)(sp >> IP_SP_SHIFT) << IP_NUMBER_BITS)
					       << 32 |
				       (uint32_t)(now << 3 | kind));
		break;
	}
	/* 5 */
	cpu_store_order();
	slot->guard = 0;
}

void rt_record(uint32_t number, uint32_t kind, uint64_t sp)
{
	record(number, kind, sp, NULL);
}

void rt_record_payload(uint32_t number, uint32_t kind, uint64_t sp,
		       const struct rt_payload *payload)
{
	record(number, kind, sp, payload);
}
