/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draining the rings. common/abi/ring.h describes the life of a sub-buffer. In its words:
 *
 *   1. Take a sub-buffer of slot s when it is FULL. Or take it when it is OWNED, s has moved on to
 *      another sub-buffer (or to none), s.guard was seen 0 after that, and the sub-buffer is still
 *      the same: then no hook can have words in it that are still to be filled. (Where a guard
 *      stays, a handler may have left its hook by longjmp. Then the sub-buffer is taken after a
 *      while, sooner if no word is missing or memory is short; its missing words count as lost.)
 *   2. Take sub-buffers only in order: the ordinal must be the next one that s has to deliver. A
 *      sub-buffer that was never in use is given back at once.
 *   3. Copy, check, write (packet_output.c, journal.h). Set TAKEN. Zero the sub-buffer. Set FREE
 *      (with release: the zeroes are seen before the state).
 *   4. When the thread has ended, or at the end of the session, take the current sub-buffer too, up
 *      to the slot's position.
 *
 * A slot becomes FREE again when its thread has ended and all its sub-buffers have been taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/collector_private.h"
#include "collector/hot_functions.h"
#include "collector/observer_private.h"
#include "common/error.h"
#include "common/process_set.h"
#include "hotpatcher/ptrace/stop.h"

/* longer than a hook needs to return after a signal handler has interrupted it */
#define SUSPENSION_NS  1000000000ull
#define STALE_GUARD_NS 200000000ull
/* A sub-buffer with words that are still to be filled waits so much longer, if there is room. Where
 * handlers follow each other without a pause, the hook below them may not get on for seconds. */
#define UNFILLED_NS 5000000000ull

/* Does step 3 up to the writing, for n words of the sub-buffer, word 0 included. Returns 1 if the
 * sub-buffer is to be freed when the packet is written (compressor.h). */
static int take(struct ip_collector *c, uint32_t slot, uint32_t subbuf, size_t n, uint64_t lost)
{
	struct ip_progress next = c->slots[slot].p;
	struct ip_checked_records found;

	memcpy(c->copy, c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE, n * sizeof(*c->copy));
	ip_observer_taken(c, slot, c->copy, n);
	ip_record_check(c->copy, n, next.last, c->records, &found);
	next.holes += found.holes;
	next.invalid += found.invalid;
	next.next_ordinal++;
	if (c->hot && found.words)
		ip_hot_packet(c->hot, c->records, found.words, found.events, found.begin,
			      found.end);
	if (found.words)
		return ip_drain_put(c, slot, subbuf, &next, &found,
				    next.lost_before + lost + next.holes);
	return ip_drain_note(c, slot, &next);
}

void ip_drain_give_back(struct ip_collector *c, uint32_t subbuf)
{
	struct ip_subbuf *b = &c->area->subbufs[subbuf];

	__atomic_store_n(&b->state, IP_SUBBUF_TAKEN, __ATOMIC_RELEASE);
	b->slot = IP_NO_SLOT;
	if (__atomic_load_n(&b->suspect, __ATOMIC_RELAXED) && !c->suspended[subbuf]) {
		/* Take it out of circulation for a while: a hook may still fill words of it. */
		c->suspended[subbuf] = ip_now_ns();
		return;
	}
	c->suspended[subbuf] = 0;
	memset(c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE, 0, IP_SUBBUF_SIZE);
	__atomic_store_n(&b->state, IP_SUBBUF_FREE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&c->area->header->nfree, 1, __ATOMIC_RELAXED);
	/* The lowest free sub-buffer is handed out first. So the target touches few new pages (each
	 * costs it a page fault) and finds them in the cache. This is only a hint: a thread that
	 * takes a sub-buffer now may overwrite it. */
	if (subbuf < c->area->header->hint)
		c->area->header->hint = subbuf;
}

void ip_drain_meet(struct ip_collector *c, uint32_t index)
{
	const struct ip_slot *slot = &c->area->slots[index];
	struct ip_claim *s = &c->slots[index];

	if (s->in_use && s->p.claimed == slot->claimed)
		return;
	s->in_use = true;
	s->p.claimed = slot->claimed;
	s->p.next_ordinal = 0;
	s->p.holes = 0;
	s->p.last = 0;
	s->p.tid = slot->tid;
	s->p.pid = slot->pid;
	s->p.released = 0;
	s->p.claims++;
	c->threads++;
	ip_process_set_add(c->processes, s->p.pid);
}

bool ip_drain_still_is(const struct ip_collector *c, const struct ip_ready *r)
{
	const struct ip_subbuf *b = &c->area->subbufs[r->subbuf];

	return __atomic_load_n(&b->state, __ATOMIC_ACQUIRE) == IP_SUBBUF_OWNED &&
	       __atomic_load_n(&b->slot, __ATOMIC_RELAXED) == r->slot &&
	       __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED) == r->ordinal;
}

bool ip_drain_never_used(const struct ip_collector *c, const struct ip_ready *r)
{
	const uint64_t *words =
		(const uint64_t *)(c->area->data + (uint64_t)r->subbuf * IP_SUBBUF_SIZE);

	if (c->area->subbufs[r->subbuf].state != IP_SUBBUF_OWNED ||
	    c->area->slots[r->slot].cur >> IP_POSITION_BITS == r->subbuf)
		return false;
	for (unsigned i = 1; i < IP_SUBBUF_WORDS; i++)
		if (words[i])
			return false;
	return true;
}

bool ip_drain_has_been_left(const struct ip_collector *c, const struct ip_ready *r, bool quiet)
{
	const struct ip_slot *slot = &c->area->slots[r->slot];
	struct ip_claim *s = &c->slots[r->slot];
	uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE), guard = 0;

	if (cur >> IP_POSITION_BITS == r->subbuf)
		return false;
	if ((cur & IP_POSITION_MASK) / IP_SUBBUF_WORDS <= r->ordinal)
		return false;
	quiet |= c->gone && c->gone[r->slot];
	for (int i = 0; !quiet && i < 64; i++) {
		guard = __atomic_load_n(&slot->guard, __ATOMIC_ACQUIRE);
		if (!guard)
			/* Look at it again. A hook may have taken the sub-buffer and not used it,
			 * since a signal handler was faster. Then it has removed its slot from the
			 * descriptor before the guard was 0. */
			return ip_drain_still_is(c, r);
	}
	if (quiet)
		return true;
	/* A handler that left by longjmp may leave the guard set for long. Take the sub-buffer
	 * then, but do not reuse it soon. */
	if (s->guard != guard) {
		s->guard = guard;
		s->guard_since = ip_now_ns();
		return false;
	}
	if (ip_now_ns() - s->guard_since < STALE_GUARD_NS)
		return false;
	c->area->subbufs[r->subbuf].suspect = 1;
	return true;
}

/* Whether to wait for words that a hook in flight may still fill. The sub-buffer's thread has left
 * it. It is the next one of its slot. */
static bool is_unfilled(struct ip_collector *c, const struct ip_ready *r)
{
	const struct ip_claim *s = &c->slots[r->slot];
	uint64_t guard = __atomic_load_n(&c->area->slots[r->slot].guard, __ATOMIC_ACQUIRE);
	struct ip_checked_records found;

	if (!ip_drain_still_is(c, r) || !guard || guard != s->guard ||
	    ip_now_ns() - s->guard_since >= UNFILLED_NS ||
	    __atomic_load_n(&c->area->header->nfree, __ATOMIC_RELAXED) <
		    (int32_t)(c->area->nsubbufs / 4))
		return false;
	memcpy(c->copy, c->area->data + (uint64_t)r->subbuf * IP_SUBBUF_SIZE, IP_SUBBUF_SIZE);
	ip_record_check(c->copy, IP_SUBBUF_WORDS, s->p.last, c->records, &found);
	return found.holes;
}

int ip_drain_by_order(const void *a, const void *b)
{
	const struct ip_ready *x = a, *y = b;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

/* Does steps 1 to 3 for all sub-buffers. quiet: no thread writes any more. */
int ip_drain_full(struct ip_collector *c, bool quiet)
{
	uint32_t used = slots_used(c);
	size_t n = 0;
	int taken = 0, kept;

	if (c->recorder) /* the threads keep their sub-buffers */
		return 0;
	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
		/* read once: the target may change it after the check */
		struct ip_ready r = {__atomic_load_n(&b->slot, __ATOMIC_RELAXED), i,
				     __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED)};

		if ((state != IP_SUBBUF_FULL && state != IP_SUBBUF_OWNED) || r.slot >= used ||
		    !is_claimed(c, r.slot))
			continue;
		if (state == IP_SUBBUF_OWNED && !ip_drain_has_been_left(c, &r, quiet))
			continue;
		c->ready[n++] = r;
	}
	qsort(c->ready, n, sizeof(*c->ready), ip_drain_by_order);
	for (size_t k = 0; k < n; k++) {
		const struct ip_ready *r = &c->ready[k];
		struct ip_claim *s = &c->slots[r->slot];

		ip_drain_meet(c, r->slot);
		if (ip_drain_never_used(c, r)) {
			ip_drain_give_back(c, r->subbuf);
			continue;
		}
		if (r->ordinal != s->p.next_ordinal) /* step 2 */
			continue;
		if (!quiet && !(c->gone && c->gone[r->slot]) && is_unfilled(c, r))
			continue;
		kept = take(c, r->slot, r->subbuf, IP_SUBBUF_WORDS,
			    c->area->subbufs[r->subbuf].lost);
		if (kept < 0)
			return -1;
		if (!kept)
			ip_drain_give_back(c, r->subbuf);
		taken++;
	}
	return taken;
}

uint64_t ip_drain_now(const struct ip_collector *c)
{
	return c->area->modes & IP_MODE_COARSE
		       ? __atomic_load_n(&c->area->clock->now, __ATOMIC_ACQUIRE)
		       : ip_clock_now();
}

/* Writes a packet without records. */
static int put_empty(struct ip_collector *c, uint32_t index, uint64_t begin, uint64_t end,
		     uint64_t discarded)
{
	const struct ip_checked_records none = {.begin = begin, .end = end};
	struct ip_progress next = c->slots[index].p;

	return ip_drain_put(c, index, IP_NO_SLOT, &next, &none, discarded) < 0 ? -1 : 0;
}

/* Writes that the thread was alive at that time and has ended. If no event of the thread was
 * written, its end does not matter. If this packet does not fit, it must not look as if events did
 * not fit. */
static int put_end(struct ip_collector *c, uint32_t index, uint64_t alive)
{
	const struct ip_progress *p = &c->slots[index].p;
	uint64_t now = ip_drain_now(c);

	if (!p->last)
		return 0;
	if (c->recorder)
		return ip_flight_recorder_tell_end(c, index, alive, now > alive ? now : alive);
	if (c->full ||
	    ip_trace_limited_bytes(c->trace) + c->on_its_way + sizeof(struct ip_packet_header) >
		    c->max_size)
		return 0;
	return put_empty(c, index, alive, now > alive ? now : alive, p->last_discarded);
}

/* Does step 4 for one slot, after ip_drain_full(). */
int ip_drain_slot(struct ip_collector *c, uint32_t index, uint64_t alive)
{
	const struct ip_slot *slot = &c->area->slots[index];
	struct ip_claim *s = &c->slots[index];
	uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE);
	uint64_t subbuf = cur >> IP_POSITION_BITS, n = cur & (IP_SUBBUF_WORDS - 1);
	bool lives = alive == IP_LIVES;
	uint64_t discarded;
	int kept;

	ip_drain_meet(c, index);
	if (c->recorder) {
		if (ip_flight_recorder_end_slot(c, index, lives ? ip_drain_now(c) : alive) < 0)
			return -1;
	} else if (subbuf < c->area->nsubbufs && c->area->subbufs[subbuf].slot == index) {
		/* the sub-buffer is filled to the last word, and the thread has not left it yet */
		if (!n)
			n = IP_SUBBUF_WORDS;
		kept = take(c, index, subbuf, n, c->area->subbufs[subbuf].lost);
		if (kept < 0)
			return -1;
		if (!kept)
			ip_drain_give_back(c, subbuf);
	}
	if (alive < s->p.last)
		alive = s->p.last;
	discarded = s->p.lost_before + slot->lost + s->p.holes;
	if (!c->recorder && discarded > s->p.last_discarded) {
		uint64_t at = lives || !alive ? ip_drain_now(c) : alive;

		if (put_empty(c, index, at, at, discarded) < 0)
			return -1;
	}
	if (!lives)
		ip_observer_ended(c, index);
	return lives ? 0 : put_end(c, index, alive);
}

/* Gives back the sub-buffer that the thread's filters have worked in (runtime/filter.c). The value
 * that the slot names may be anything. */
static void give_memory_back(struct ip_collector *c, uint32_t taken)
{
	struct ip_subbuf *b;

	if (!taken || taken > c->area->nsubbufs)
		return;
	b = &c->area->subbufs[taken - 1];
	if (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) == IP_SUBBUF_OWNED &&
	    __atomic_load_n(&b->slot, __ATOMIC_RELAXED) == IP_NO_SLOT)
		ip_drain_give_back(c, taken - 1);
}

static void free_slot(struct ip_collector *c, uint32_t index)
{
	struct ip_slot *slot = &c->area->slots[index];

	give_memory_back(c, slot->memory);
	c->filtered_done += slot->filtered + slot->held;
	c->slots[index].in_use = false;
	c->slots[index].missing = 0;
	slot->lost = 0;
	slot->filtered = 0;
	slot->held = 0;
	slot->memory = 0;
	slot->cur = IP_NO_SUBBUF << IP_POSITION_BITS;
	ip_counters_release(c->counters, slot);
	__atomic_store_n(&slot->state, IP_SLOT_FREE, __ATOMIC_RELEASE);
}

void ip_drain_release(struct ip_collector *c, uint32_t index)
{
	struct ip_progress next;

	ip_drain_settle(c); /* if this fails, the next write will fail, too */
	next = c->slots[index].p;
	next.lost_before += c->area->slots[index].lost + next.holes;
	c->unfinished_done += next.holes;
	next.holes = 0;
	next.released = 1;
	/* Without this note another iprobe would find a thread that has ended, and release its slot
	 * again. */
	ip_trace_note_progress(c->trace, index, &next);
	ip_drain_advance(c, index, &next);
	if (c->recorder)
		ip_flight_recorder_release(c, index);
	free_slot(c, index);
}

void ip_drain_end_suspensions(struct ip_collector *c, uint64_t now)
{
	for (uint32_t i = 0; i < c->area->nsubbufs; i++)
		if (c->suspended[i] && now - c->suspended[i] > SUSPENSION_NS)
			ip_drain_give_back(c, i);
}

/* Corrects the number of free sub-buffers. Threads take sub-buffers and the collector frees some
 * meanwhile. So the number is a hint: it may be too large, but it is not too small for long. */
static void correct_nfree(struct ip_collector *c)
{
	int32_t nfree = 0, said = __atomic_load_n(&c->area->header->nfree, __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < c->area->nsubbufs; i++)
		nfree += __atomic_load_n(&c->area->subbufs[i].state, __ATOMIC_RELAXED) ==
			 IP_SUBBUF_FREE;
	if (nfree > said)
		__atomic_fetch_add(&c->area->header->nfree, nfree - said, __ATOMIC_RELAXED);
}

void ip_drain_resume(struct ip_collector *c)
{
	const struct ip_progress nothing = {0};

	for (uint32_t i = 0; i < IP_AREA_SLOTS; i++) {
		struct ip_claim *s = &c->slots[i];
		struct ip_progress p;

		if (!ip_trace_progress(c->trace, i, &p))
			continue;
		s->p = nothing;
		ip_drain_advance(c, i, &p);
		ip_process_set_add(c->processes, p.pid);
		c->threads += p.claims ? p.claims : 1;
		s->in_use = !p.released;
		/* The other iprobe was killed between writing the note and freeing the slot. */
		if (p.released && is_claimed(c, i) && c->area->slots[i].claimed == p.claimed)
			free_slot(c, i);
	}
	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE), slot = b->slot;

		if (state == IP_SUBBUF_TAKEN) {
			ip_drain_give_back(c, i);
			continue;
		}
		if ((state != IP_SUBBUF_FULL && state != IP_SUBBUF_OWNED) ||
		    slot >= slots_used(c) || !is_claimed(c, slot) || !c->slots[slot].in_use ||
		    c->area->slots[slot].claimed != c->slots[slot].p.claimed)
			continue;
		/* The other iprobe was killed between the writing and the TAKEN of step 3. */
		if (b->ordinal < c->slots[slot].p.next_ordinal)
			ip_drain_give_back(c, i);
	}
	correct_nfree(c);
}
