/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads sub-buffers that are not full yet. observer.h tells the steps.
 */
#include "collector/observer.h"

#include <stdlib.h>
#include <string.h>

#include "collector/observer_private.h"
#include "common/error.h"
#include "common/trace/trace_format.h"

/* Ticks of the clock: a store is seen by all CPUs much sooner, in some hundred of them. */
#define MARGIN	    10000u
#define GUARD_LOOKS 64

/* How far one claim has been read. */
struct look {
	uint64_t claimed;		    /* 0: none was seen in this slot */
	struct ip_record_check_place place; /* in the sub-buffer that is delivered next */
	uint64_t sp;
};

struct ip_observer_looks {
	const struct ip_collector_observer *observer;
	struct look *slots;
	struct ip_observer_behind *behind;
	uint64_t *copy, *checked; /* words of a sub-buffer */
	struct ip_observer_record *records;
};

int ip_collector_observe(struct ip_collector *c, const struct ip_collector_observer *observer)
{
	struct ip_observer_looks *looks;

	ip_observer_destroy(c->looks);
	c->looks = NULL;
	if (!observer)
		return 0;
	looks = calloc(1, sizeof(*looks));
	if (!looks)
		return ip_error("out of memory");
	looks->observer = observer;
	looks->slots = calloc(IP_AREA_SLOTS, sizeof(*looks->slots));
	looks->behind = calloc(IP_AREA_SLOTS, sizeof(*looks->behind));
	looks->copy = malloc(IP_SUBBUF_SIZE);
	looks->checked = malloc(IP_SUBBUF_SIZE);
	looks->records = calloc(IP_SUBBUF_WORDS, sizeof(*looks->records));
	c->looks = looks;
	return looks->slots && looks->behind && looks->copy && looks->checked && looks->records
		       ? 0
		       : ip_error("out of memory");
}

void ip_observer_destroy(struct ip_observer_looks *looks)
{
	if (!looks)
		return;
	free(looks->slots);
	free(looks->behind);
	free(looks->copy);
	free(looks->checked);
	free(looks->records);
	free(looks);
}

static struct ip_observer_claim claim_of(const struct ip_collector *c, uint32_t slot)
{
	const struct ip_progress *p = &c->slots[slot].p;

	return (struct ip_observer_claim){slot, p->pid, p->tid, p->claimed};
}

/* The look at the slot's present claim. */
static struct look *look_of(struct ip_collector *c, uint32_t slot)
{
	struct look *l = &c->looks->slots[slot];

	if (l->claimed != c->slots[slot].p.claimed)
		*l = (struct look){.claimed = c->slots[slot].p.claimed,
				   .place = {.first = 1, .time = c->slots[slot].p.last}};
	return l;
}

/* Decodes a checked record at words. Returns its length. */
static size_t decode(const uint64_t *words, struct look *l, struct ip_observer_record *ret)
{
	const uint64_t word = words[0];
	uint64_t kind = word & 7, number = word >> 32;
	size_t length = 1;

	if (kind == IP_ID_EXTENDED) {
		kind = ((word >> 3) & IP_TIME_MASK) - IP_ID_EXT_BASE;
		length = IP_EXT_WORDS;
		if (kind > IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE) {
			kind -= IP_ID_PAYLOAD_BASE - IP_ID_EXT_BASE;
			length = IP_PAYLOAD_HEAD + IP_PAYLOAD_N(words[IP_EXT_WORDS]);
		}
		l->place.time = word >> 32 | words[1] << 32;
		number = words[1] >> 32;
		l->sp = words[2] & ~((1ull << IP_SP_SHIFT) - 1);
	} else {
		l->place.time = (l->place.time & ~IP_TIME_MASK) | ((word >> 3) & IP_TIME_MASK);
		/* the signed difference to the stack pointer before */
		l->sp += (int64_t)(((word >> (64 - IP_SP_BITS)) - (l->sp >> IP_SP_SHIFT))
				   << (64 - IP_SP_BITS)) >>
			 (64 - IP_SP_BITS - IP_SP_SHIFT);
	}
	*ret = (struct ip_observer_record){l->place.time, l->sp, number & IP_NUMBER_MAX, kind};
	return length;
}

/* Tells of words[first..n), where first is the place of the look. */
static void tell(struct ip_collector *c, uint32_t slot, struct look *l, const uint64_t *words,
		 size_t n, bool complete)
{
	struct ip_observer_looks *looks = c->looks;
	struct ip_checked_records found;
	size_t next, told = 0;

	next = ip_record_check_part(words, n, &l->place, complete, looks->checked, &found);
	for (size_t i = 0; i < found.words;)
		i += decode(looks->checked + i, l, &looks->records[told++]);
	l->place.first = next;
	l->place.begun |= told > 0;
	if (told) {
		const struct ip_observer_claim claim = claim_of(c, slot);

		looks->observer->records(looks->observer->data, &claim, looks->records, told);
	}
}

void ip_observer_taken(struct ip_collector *c, uint32_t slot, const uint64_t *words, size_t n)
{
	struct look *l;

	if (!c->looks)
		return;
	l = look_of(c, slot);
	if (l->place.first < n)
		tell(c, slot, l, words, n, true);
	l->place.first = 1;
	l->place.begun = false;
}

void ip_observer_ended(struct ip_collector *c, uint32_t slot)
{
	const struct ip_observer_claim claim = claim_of(c, slot);

	if (c->looks)
		c->looks->observer->ended(c->looks->observer->data, &claim, ip_drain_now(c));
}

/* Steps 2 and 3. Returns whether the claim is behind, and how. */
static bool look_at(struct ip_collector *c, uint32_t index, struct ip_observer_behind *ret)
{
	const struct ip_slot *slot = &c->area->slots[index];
	const uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE),
		       position = cur & IP_POSITION_MASK, subbuf = cur >> IP_POSITION_BITS,
		       base = c->slots[index].p.next_ordinal * IP_SUBBUF_WORDS;
	/* in such sessions a hook may be in flight although the guard is 0 */
	const bool unsure = c->area->modes & (IP_MODE_PAYLOADS | IP_MODE_CAREFUL);
	struct look *l = look_of(c, index);
	const struct ip_subbuf *b = subbuf < c->area->nsubbufs ? &c->area->subbufs[subbuf] : NULL;
	bool idle = false;
	size_t n = position > base ? position - base : 0;

	for (int i = 0; i < GUARD_LOOKS && !idle; i++)
		idle = !__atomic_load_n(&slot->guard, __ATOMIC_ACQUIRE);
	/* a hook may have come and gone between the two */
	idle = idle && __atomic_load_n(&slot->cur, __ATOMIC_ACQUIRE) == cur;
	*ret = (struct ip_observer_behind){.claim = claim_of(c, index)};
	if (n &&
	    (!b || __atomic_load_n(&b->slot, __ATOMIC_RELAXED) != index ||
	     __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED) != c->slots[index].p.next_ordinal)) {
		/* between two sub-buffers, or the drain has not come so far */
		ret->full = true;
	} else {
		n = n < IP_SUBBUF_WORDS ? n : IP_SUBBUF_WORDS;
		if (l->place.first < n) {
			memcpy(c->looks->copy + l->place.first,
			       c->area->data + subbuf * IP_SUBBUF_SIZE +
				       l->place.first * sizeof(uint64_t),
			       (n - l->place.first) * sizeof(uint64_t));
			tell(c, index, l, c->looks->copy, n, idle && !unsure);
		}
	}
	ret->newest = l->place.time;
	ret->words = n > l->place.first ? n - l->place.first : 0;
	return ret->words || ret->full || !idle;
}

void ip_observer_look(struct ip_collector *c)
{
	struct ip_observer_looks *looks = c->looks;
	const uint64_t now = looks ? ip_drain_now(c) : 0;
	size_t n = 0;

	if (!looks)
		return;
	for (uint32_t i = 0; i < slots_used(c); i++) {
		if (!is_claimed(c, i))
			continue;
		ip_drain_meet(c, i);
		n += look_at(c, i, &looks->behind[n]);
	}
	looks->observer->looked(looks->observer->data, now > MARGIN ? now - MARGIN : 0,
				looks->behind, n);
}
