/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing records. The hooks (arch/ARCH/hooks.S) do the common case by themselves, by the same
 * steps. All other cases come here.
 *
 * A ring has one writer: its thread, and the signal handlers that interrupt it. The protocol
 * (memory in common/abi/ring.h, record layout in common/trace/trace_format.h):
 *
 *   1. The thread's slot is valid only for the session in the gate. If it is not valid, claim one.
 *      If the gate is 0, there is no session, or this is a forked child: the kernel has cleared its
 *      gate. Then do nothing, unless the session follows forks (rt_follow_fork).
 *   2. If guard != 0, this hook runs in a signal handler on top of another hook of this thread:
 *      take the nested path, step 6.
 *   3. guard = the hook's stack pointer. From here to step 5 the collector knows that a hook is in
 *      flight.
 *   4. Read cur, then the clock; store the stack pointer; reserve words by cmpxchg of cur. The
 *      cmpxchg fails exactly if a handler has recorded in between; then start again, with a new
 *      time. So records lie in time order, and the values that this step read (epoch, last_sp) were
 *      still true when the words became the hook's. Then fill the words. A handler that comes now
 *      reserves words behind them, with a later time.
 *   5. guard = 0. x86 keeps the stores in order: a reader that sees guard == 0 sees the filled
 *      words.
 *   6. Nested: the same steps, with three differences. The record is always an extended one: the
 *      hook below may or may not have stored its stack pointer. The next record must be extended
 *      too (epoch = ~0). And the nested hook never hands a full sub-buffer to the collector: the
 *      hook below may still have to fill words in it.
 *   7. A handler that leaves by longjmp leaves guard set for ever. Between a hook and a handler on
 *      top of it lie the red zone and the signal frame, more than 900 bytes (asm/sigcontext.h);
 *      stacks grow down. So a hook whose stack pointer is not below guard by that much is not on
 *      top of the hook that set it. That hook is gone: take the guard over. This conclusion may be
 *      wrong on an alternate stack that lies above the interrupted stack. Therefore the sub-buffer
 *      in use is marked suspect, and the collector does not hand it out again in this session. So
 *      the words that the hook below fills late do no harm.
 *
 * With coarse time (IP_MODE_COARSE) the hooks reserve words by addition. This takes less time than
 * comparing. If it was in vain, it is undone:
 *
 *   A1. Addition is used only for a compact record, with no hook below (step 2), and with the same
 *       stamp as the record before. In such a session epoch is that stamp, so one comparison is
 *       enough. All other records come here, where words are reserved by cmpxchg.
 *   A2. Steps 3 and 4, but one instruction increases cur and returns its old value (not locked). If
 *       the old value is the one that was read, the word is the hook's, and what was read was still
 *       true, as in step 4.
 *   A3. Otherwise a handler has recorded in the meantime, and the word is the one behind its words.
 *       The addition is undone by cmpxchg, and rt_record() starts again. The cmpxchg fails if
 *       another handler has recorded since. Then the word stays and is never filled; it stands for
 *       this event, which is lost. (The hook can be sure of no other word: a hook that took its
 *       guard for stale may have handed the sub-buffer over.) If there was no room any more, or no
 *       sub-buffer, the addition must do no harm. So the last words of a sub-buffer
 *       (IP_SUBBUF_SPARE) are no room, and without a sub-buffer the position is that of the first
 *       of these words. A hook that finds the position beyond them sets it back.
 *
 * Nothing here allocates, locks or calls functions outside of the runtime. The same holds for what
 * it calls: claim.c at a thread's first event, subbufs.c where a sub-buffer is full.
 */
#include <stddef.h>

#include "common/elf/probe_list.h"
#include "common/trace/trace_format.h"
#include "runtime/arch/cpu.h"
#include "runtime/filter.h"
#include "runtime/flow.h"
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
		       IP_MODE_MONOTONIC == MODE_MONOTONIC && IP_MODE_SITES == MODE_SITES &&
		       IP_MODE_WITHIN == MODE_WITHIN && IP_MODE_ALONE == MODE_ALONE &&
		       offsetof(struct ip_slot, filtered) == SLOT_FILTERED &&
		       offsetof(struct ip_filters, nrules) == FILTERS_NRULES &&
		       sizeof(struct ip_filter_rule) == 1 << RULE_SHIFT &&
		       offsetof(struct ip_filter_rule, frame) == RULE_FRAME &&
		       offsetof(struct ip_filter_rule, flags) == RULE_FLAGS &&
		       sizeof(struct rt_flow) == 1 << FLOW_SHIFT &&
		       offsetof(struct rt_flow, base) == FLOW_BASE &&
		       offsetof(struct rt_flow, sp) == FLOW_SP &&
		       offsetof(struct rt_flow, last) == FLOW_LAST &&
		       offsetof(struct rt_flow, state) == FLOW_STATE &&
		       offsetof(struct rt_flow, others) == FLOW_STATE + 2 &&
		       FLOW_ELSEWHERE == (RT_FLOW_AWAY | 0xffff0000u) &&
		       IP_RULE_SITE == RULE_SITE && IP_RULE_WITHIN == RULE_WITHIN &&
		       sizeof(struct ip_subbuf) == 1 << SUBBUF_DESCRIPTOR_SHIFT &&
		       offsetof(struct ip_subbuf, surplus) == SUBBUF_SURPLUS &&
		       IP_PAYLOAD_HEAD + 1 == SITE_WORDS &&
		       (IP_PROBE_ENTRY + IP_ID_PAYLOAD_BASE) << 3 == (SITE_KIND ^ IP_ID_EXTENDED) &&
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

/* With coarse time the stamp comes from struct ip_area_clock, which iprobe updates from outside. It
 * never decreases. Between updates it stands still, so many records have one stamp, in their order.
 *
 * With IP_MODE_MONOTONIC the stamp comes from the kernel's clock. That takes a system call, for
 * which a thread under seccomp might be ended. As soon as iprobe sees a thread under seccomp, it
 * sets struct ip_area_clock to a time after all stamps, and that time stands still until the
 * session ends. A filter that only refuses the call may come before iprobe has seen it. Then time
 * stands still where it was. If a handler has read a later time in between, this function reads
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

/* epoch_at(): the value of slot->epoch after a record at that time. is_another_epoch(): whether the
 * upper bits of that time differ from those of the last record. */
static inline uint64_t epoch_at(const struct ip_slot *slot, uint64_t now)
{
	return is_coarse(slot) ? now : now >> IP_TIME_BITS;
}

static inline int is_another_epoch(const struct ip_slot *slot, uint64_t now)
{
	return now >> IP_TIME_BITS != (is_coarse(slot) ? slot->epoch >> IP_TIME_BITS : slot->epoch);
}

/* Fills the words of an extended record. number: with the stack pointer's bits. caller: 0 if it is
 * not recorded. */
static void fill_extended(uint64_t *word, uint32_t number, uint32_t kind, uint64_t sp, uint64_t now,
			  const struct rt_payload *payload, uint64_t caller)
{
	if (payload || caller) {
		uint32_t n = payload ? payload->n : 0;

		/* The word that tells the record's length comes first. So a reader can skip a
		 * record that is never finished. */
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
	/* The order matters: it shows if a record is never finished. None of the three words is
	 * ever zero. */
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

/* A careful session (filter.c) writes each of its records here. Words are reserved as in step 4. If
 * the event has a time, the clock is not read again. */
int rt_put(struct ip_slot *slot, const struct rt_event *event, int nested)
{
	uint64_t values = event->payload ? event->payload->n : 0, extra = event->caller ? 1 : 0,
		 sp = event->sp;
	uint32_t number = event->number | (uint32_t)(sp >> IP_SP_SHIFT) << IP_NUMBER_BITS;

	for (;;) {
		uint64_t cur = *(volatile uint64_t *)&slot->cur, words = 1;
		uint64_t now = event->time ? event->time : clock_of(slot), *word;

		/* a guard was taken for stale although it was not */
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

/* Steps 6 and 7. Returns 1 if the guard was stale and the hook may take it now. */
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

	/* step 1 */
	slot = rt_self_slot();
	if (rt_unlikely(!slot)) {
		slot = rt_claim_slot();
		if (!slot)
			return;
	}
	if (rt_unlikely(slot->modes & IP_MODE_PAYLOADS) && rt_meters_do(slot, number, kind, sp))
		return;
	/* a trial of FPerf (fperf_read.c) whose session has just ended */
	if (rt_unlikely(!number))
		return;
	if (payload && payload->session != IP_SESSION_NUMBER(slot->session))
		payload = NULL;
	if (rt_unlikely(slot->modes & IP_MODE_CAREFUL)) {
		rt_careful(slot, number, kind, sp, payload && payload->bare ? NULL : payload,
			   payload && payload->out);
		return;
	}
	if (payload && payload->bare)
		payload = NULL;
	/* step 2 */
	if (rt_unlikely(slot->guard) && !nested(slot, number, kind, sp, payload))
		return;
	/* step 3 */
	slot->guard = sp;
	cpu_store_order();
	/* step 4 */
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
			/* a handler that took this hook's guard for stale has not set epoch to ~0,
			 * and last_sp is no longer that of its record */
			slot->epoch = ~0ull;
			continue;
		}
		cpu_store_word(word_at(cur),
			       (uint64_t)(number | (uint32_t)(sp >> IP_SP_SHIFT) << IP_NUMBER_BITS)
					       << 32 |
				       (uint32_t)(now << 3 | kind));
		break;
	}
	/* step 5 */
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
