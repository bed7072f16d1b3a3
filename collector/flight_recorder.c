/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session that overwrites keeps, and how it is written.
 */
#include "collector/flight_recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collector/collector_private.h"
#include "common/cleanup.h"
#include "common/error.h"

#define COPIES_MOST 2 /* a snapshot copies at most so many times what the rings hold */
/* One in so many sub-buffers is held back for new threads. */
#define RESERVE_SHARE 16

/* A packet. With n == 0 it only reports losses, or the end of the thread. */
struct packet {
	struct packet *next;
	uint64_t begin, end;
	/* the slot's discarded events before this packet, without those dropped from the
	 * collector's memory */
	uint64_t discarded;
	uint64_t events;
	uint64_t surplus, ordinal; /* of the sub-buffer, used while it is copied */
	uint64_t holes, invalid;   /* the same, and of all that were copied before it */
	/* the sub-buffer was FULL: surplus cannot change any more */
	bool final;
	uint32_t slot;
	pid_t pid, tid;
	size_t n;
	uint64_t words[];
};

struct packets {
	struct packet *first, **last;
	size_t bytes;
};

struct ip_flight_recorder {
	struct packets kept; /* packets of threads that have ended */
	size_t most;	     /* limit of kept, in bytes */
	/* per slot: overwritten events of claims that have ended */
	uint64_t *before;
	/* per slot: events of packets that were dropped from kept */
	uint64_t *dropped;
	/* overwritten events of claims that have ended, and events of dropped packets */
	uint64_t overwritten;
};

static void packets_init(struct packets *p)
{
	*p = (struct packets){.last = &p->first};
}

static size_t size_of(const struct packet *p)
{
	return sizeof(*p) + p->n * sizeof(*p->words);
}

static struct packet *packets_shift(struct packets *list)
{
	struct packet *p = list->first;

	list->first = p->next;
	if (!list->first)
		list->last = &list->first;
	list->bytes -= size_of(p);
	return p;
}

static void packets_clear(struct packets *list)
{
	while (list->first)
		free(packets_shift(list));
}

static struct packet *packets_add(struct packets *list, const struct ip_collector *c, uint32_t slot,
				  const struct ip_checked_records *found)
{
	struct packet *p = calloc(1, sizeof(*p) + found->words * sizeof(*p->words));

	if (!p) {
		ip_error("out of memory");
		return NULL;
	}
	p->begin = found->begin;
	p->end = found->end;
	p->events = found->events;
	p->slot = slot;
	p->pid = c->slots[slot].p.pid;
	p->tid = c->slots[slot].p.tid;
	p->n = found->words;
	memcpy(p->words, c->records, found->words * sizeof(*p->words));
	*list->last = p;
	list->last = &p->next;
	list->bytes += size_of(p);
	return p;
}

int ip_flight_recorder_begin(struct ip_collector *c)
{
	struct ip_area_header *h = c->area->header;
	struct ip_flight_recorder *w = calloc(1, sizeof(*w));

	if (!w)
		return ip_error("out of memory");
	packets_init(&w->kept);
	w->most = (size_t)c->area->nsubbufs * IP_SUBBUF_SIZE;
	w->dropped = calloc(IP_AREA_SLOTS, sizeof(*w->dropped));
	w->before = calloc(IP_AREA_SLOTS, sizeof(*w->before));
	c->recorder = w;
	if (!w->dropped || !w->before)
		return ip_error("out of memory");
	h->share = c->area->nsubbufs;
	h->reserve = c->area->nsubbufs / RESERVE_SHARE;
	return 0;
}

void ip_flight_recorder_destroy(struct ip_flight_recorder *w)
{
	if (!w)
		return;
	packets_clear(&w->kept);
	free(w->before);
	free(w->dropped);
	free(w);
}

static void drop_first(struct ip_flight_recorder *w)
{
	struct packet *p = packets_shift(&w->kept);

	w->dropped[p->slot] += p->events;
	w->overwritten += p->events;
	free(p);
}

/* Lists the slot's sub-buffers in c->ready, sorted. With IP_AREA_SLOTS it lists those of all slots.
 * Each field is read once, since the target may change it after the check. */
static size_t list_subbufs(struct ip_collector *c, uint32_t slot)
{
	uint32_t used = slots_used(c);
	size_t n = 0;

	for (uint32_t i = 0; i < c->area->nsubbufs; i++) {
		const struct ip_subbuf *b = &c->area->subbufs[i];
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
		struct ip_ready r = {__atomic_load_n(&b->slot, __ATOMIC_RELAXED), i,
				     __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED)};

		if ((state == IP_SUBBUF_FULL || state == IP_SUBBUF_OWNED) && r.slot < used &&
		    (slot == IP_AREA_SLOTS || r.slot == slot) && is_claimed(c, r.slot))
			c->ready[n++] = r;
	}
	qsort(c->ready, n, sizeof(*c->ready), ip_drain_by_order);
	return n;
}

/* Returns the number of words of the sub-buffer that have been reserved, word 0 included. */
static size_t words_of(const struct ip_collector *c, const struct ip_ready *r)
{
	uint64_t cur = __atomic_load_n(&c->area->slots[r->slot].cur, __ATOMIC_ACQUIRE);
	size_t n = cur & (IP_SUBBUF_WORDS - 1);

	/* n 0: the sub-buffer is filled to the last word, and the thread has not left it yet */
	return cur >> IP_POSITION_BITS == r->subbuf && n ? n : IP_SUBBUF_WORDS;
}

static void copy_words(struct ip_collector *c, uint32_t subbuf, size_t n)
{
	memcpy(c->copy, c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE, n * sizeof(*c->copy));
}

/* If losses came after the last packet, adds an empty packet that reports them. */
static int tell_losses(struct ip_collector *c, uint32_t index, uint64_t at, uint64_t discarded,
		       struct packets *list)
{
	const struct ip_checked_records none = {.begin = at, .end = at};
	struct packet *p;

	if (!discarded)
		return 0;
	p = packets_add(list, c, index, &none);
	if (!p)
		return -1;
	p->discarded = discarded;
	return 0;
}

int ip_flight_recorder_end_slot(struct ip_collector *c, uint32_t index, uint64_t at)
{
	const struct ip_slot *slot = &c->area->slots[index];
	struct ip_claim *s = &c->slots[index];
	uint64_t base = s->p.lost_before + c->recorder->before[index] + IP_TAIL_EVENTS(slot->tail),
		 last = 0;
	size_t n = list_subbufs(c, index);

	for (size_t i = 0; i < n; i++) {
		const struct ip_ready *r = &c->ready[i];
		size_t words = words_of(c, r);
		struct ip_checked_records found;
		struct packet *p;

		/* The second case: the target was killed while it recycled the sub-buffer. Its
		 * events are counted as overwritten. */
		if (ip_drain_never_used(c, r) ||
		    (int16_t)IP_TAIL_DISTANCE(slot->tail, r->ordinal) < 0) {
			ip_drain_give_back(c, r->subbuf);
			continue;
		}
		copy_words(c, r->subbuf, words);
		ip_record_check(c->copy, words, s->p.last, c->records, &found);
		s->p.holes += found.holes;
		c->invalid += found.invalid;
		if (found.words) {
			p = packets_add(&c->recorder->kept, c, index, &found);
			if (!p)
				return -1;
			last = p->discarded = base + c->area->subbufs[r->subbuf].lost + s->p.holes;
			s->p.last = found.end > s->p.last ? found.end : s->p.last;
		}
		ip_drain_give_back(c, r->subbuf);
	}
	s->p.last_discarded = last;
	if (base + slot->lost + s->p.holes <= last)
		return 0;
	s->p.last_discarded = base + slot->lost + s->p.holes;
	if (at < s->p.last)
		at = s->p.last;
	return tell_losses(c, index, at ? at : ip_drain_now(c), s->p.last_discarded,
			   &c->recorder->kept);
}

int ip_flight_recorder_tell_end(struct ip_collector *c, uint32_t index, uint64_t alive,
				uint64_t gone)
{
	const struct ip_checked_records end = {.begin = alive, .end = gone};
	struct packet *p = packets_add(&c->recorder->kept, c, index, &end);

	if (!p)
		return -1;
	p->discarded = c->slots[index].p.last_discarded;
	return 0;
}

void ip_flight_recorder_release(struct ip_collector *c, uint32_t index)
{
	struct ip_slot *slot = &c->area->slots[index];
	uint64_t overwritten = IP_TAIL_EVENTS(slot->tail);

	c->recorder->before[index] += overwritten;
	c->recorder->overwritten += overwritten;
	slot->tail = 0;
}

static int write_packet(struct ip_collector *c, struct ip_trace *trace, const struct packet *p,
			uint64_t *events)
{
	struct ip_packet_header header = {.timestamp_begin = p->begin,
					  .timestamp_end = p->end,
					  .pid = p->pid,
					  .tid = p->tid,
					  .events_discarded =
						  p->discarded + c->recorder->dropped[p->slot]};

	if (ip_trace_write_packet(trace, p->slot, &header, p->words, p->n, &c->slots[p->slot].p) <
	    0)
		return -1;
	*events += p->events;
	return 0;
}

/* The time of the first event of a sub-buffer, as far as it is there: what the target may have
 * written. 0: unknown. */
static uint64_t begin_of(const struct ip_collector *c, uint32_t subbuf)
{
	const uint64_t *words =
		(const uint64_t *)(c->area->data + (uint64_t)subbuf * IP_SUBBUF_SIZE);
	/* The first record of a sub-buffer is an extended one. Hooks write this word, which is
	 * never zero, behind the one before it. */
	const uint64_t second = __atomic_load_n(&words[2], __ATOMIC_ACQUIRE),
		       first = __atomic_load_n(&words[1], __ATOMIC_RELAXED);

	return second && (first & 7) == IP_ID_EXTENDED ? first >> 32 | second << 32 : 0;
}

/* Whether the i-th of n sub-buffers has ended before a time: the next one begins before it. One
 * that its thread takes away meanwhile begins later then. */
static bool has_ended(const struct ip_collector *c, size_t i, size_t n, uint64_t since)
{
	uint64_t next;

	if (i + 1 >= n || c->ready[i + 1].ordinal != c->ready[i].ordinal + 1)
		return false;
	next = begin_of(c, c->ready[i + 1].subbuf);
	return next && next < since;
}

/* Does steps 2 to 4 for one slot, whose sub-buffers are c->ready[0..n), but for those that have
 * ended before a time. */
static int copy_slot(struct ip_collector *c, uint32_t index, size_t n, uint64_t since,
		     struct packets *list, struct ip_flight_recorder_counts *ret)
{
	const struct ip_ready *ready = c->ready;
	const struct ip_slot *slot = &c->area->slots[index];
	uint64_t tail, before, holes = 0, invalid = 0, lost, last = 0;
	uint64_t torn_holes = 0, torn_invalid = 0; /* of what is left out at the end */
	struct packets own;

	packets_init(&own);
	for (size_t i = 0; i < n; i++) {
		const struct ip_ready *r = &ready[i];
		const struct ip_subbuf *b = &c->area->subbufs[r->subbuf];
		/* Read the state first: a sub-buffer that is FULL has all its words. */
		uint32_t state = __atomic_load_n(&b->state, __ATOMIC_ACQUIRE);
		size_t words = words_of(c, r);
		uint64_t lost_before = b->lost, surplus = b->surplus;
		struct ip_checked_records found;
		struct packet *p;

		if (since && has_ended(c, i, n, since))
			continue;
		copy_words(c, r->subbuf, words);
		/* 3. */
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&b->slot, __ATOMIC_RELAXED) != r->slot ||
		    __atomic_load_n(&b->ordinal, __ATOMIC_RELAXED) != r->ordinal) {
			ret->torn++;
			packets_clear(&own);
			holes = invalid = 0;
			continue;
		}
		/* A target that moves its sub-buffers to another slot each time could make the
		 * collector copy them without end. */
		if (list->bytes + own.bytes > COPIES_MOST * c->recorder->most) {
			ret->torn++;
			packets_clear(&own);
			holes = invalid = 0;
			continue;
		}
		ip_record_check(c->copy, words, last, c->records, &found);
		last = found.words ? found.end : last;
		if (state == IP_SUBBUF_FULL) /* otherwise its hook may still come back */
			holes += found.holes;
		invalid += found.invalid;
		p = packets_add(&own, c, index, &found);
		if (!p) {
			packets_clear(&own);
			return -1;
		}
		p->discarded = lost_before + holes;
		p->ordinal = r->ordinal;
		p->surplus = surplus;
		p->holes = holes;
		p->invalid = invalid;
		p->final = state == IP_SUBBUF_FULL;
	}
	/* 4. */
	lost = slot->lost;
	tail = __atomic_load_n(&slot->tail, __ATOMIC_ACQUIRE);
	before = IP_TAIL_EVENTS(tail);
	for (struct packet *p = own.first; p;) {
		bool gone = (int16_t)IP_TAIL_DISTANCE(tail, p->ordinal) < 0, partial = !p->final;

		if (gone && partial) {
			torn_holes = p->holes;
			torn_invalid = p->invalid;
		}
		p = p->next;
		if (!gone || !partial)
			continue;
		/* more events may have come after the copy and before the overwriting */
		while (own.first != p)
			free(packets_shift(&own));
		ret->torn++;
	}
	/* what is left out is among the overwritten as a whole */
	for (struct packet *p = own.first; p; p = p->next)
		p->discarded -= torn_holes;
	holes -= torn_holes;
	invalid -= torn_invalid;
	for (struct packet *p = own.first; p && (int16_t)IP_TAIL_DISTANCE(tail, p->ordinal) < 0;
	     p = p->next)
		before -= IP_SUBBUF_ROOM - p->surplus;
	ret->overwritten += before;
	before += c->slots[index].p.lost_before + c->recorder->before[index];
	ret->lost += lost + holes;
	ret->invalid += invalid;
	for (struct packet *p = own.first; p; p = p->next)
		p->discarded += before;
	if (own.first) {
		*list->last = own.first;
		list->last = own.last;
		list->bytes += own.bytes;
	}
	return 0;
}

int ip_flight_recorder_snapshot(struct ip_collector *c, struct ip_trace *trace, uint64_t since,
				struct ip_flight_recorder_counts *ret)
{
	struct packets list;
	uint32_t used = slots_used(c);
	int done = 0;

	packets_init(&list);
	*ret = (struct ip_flight_recorder_counts){.overwritten = c->recorder->overwritten,
						  .lost = c->lost_done,
						  .invalid = c->invalid};
	/* 1. A new list for each thread: while other threads are copied, a busy thread overwrites
	 * all of its ring. */
	for (uint32_t i = 0; i < used && done == 0; i++) {
		size_t n;

		if (!is_claimed(c, i))
			continue;
		ip_drain_meet(c, i);
		n = list_subbufs(c, i);
		done = copy_slot(c, i, n, since, &list, ret);
	}
	for (const struct packet *p = c->recorder->kept.first; p && done == 0; p = p->next)
		if (p->end >= since)
			done = write_packet(c, trace, p, &ret->events);
	for (const struct packet *p = list.first; p && done == 0; p = p->next)
		if (p->n)
			done = write_packet(c, trace, p, &ret->events);
	packets_clear(&list);
	return done;
}

void ip_flight_recorder_trim(struct ip_collector *c)
{
	while (c->recorder->kept.bytes > c->recorder->most)
		drop_first(c->recorder);
}

int ip_flight_recorder_finish(struct ip_collector *c)
{
	struct ip_flight_recorder *w = c->recorder;

	/* If not all packets fit, drop the oldest. */
	while (w->kept.first && w->kept.bytes > c->max_size)
		drop_first(w);
	while (w->kept.first) {
		struct packet *p = packets_shift(&w->kept);
		int done = c->full ? 0 : write_packet(c, c->trace, p, &c->events);

		if (done < 0 && ip_drain_is_out_of_space(errno)) {
			c->full = c->no_space = true;
			done = 0;
		}
		if (c->full)
			c->beyond += p->events;
		free(p);
		if (done < 0)
			return -1;
	}
	return 0;
}

uint64_t ip_flight_recorder_overwritten(const struct ip_collector *c)
{
	uint64_t sum = c->recorder->overwritten;

	for (uint32_t i = 0; i < slots_used(c); i++)
		if (is_claimed(c, i))
			sum += IP_TAIL_EVENTS(c->area->slots[i].tail);
	return sum;
}

uint64_t ip_flight_recorder_kept(const struct ip_collector *c)
{
	uint64_t sum = 0;

	for (const struct packet *p = c->recorder->kept.first; p; p = p->next)
		sum += p->events;
	for (uint32_t i = 0; i < slots_used(c); i++) {
		uint64_t position = c->area->slots[i].cur & IP_POSITION_MASK;

		if (is_claimed(c, i))
			sum += IP_TAIL_DISTANCE(c->area->slots[i].tail,
						position / IP_SUBBUF_WORDS) *
				       IP_SUBBUF_ROOM +
			       position % IP_SUBBUF_WORDS;
	}
	return sum;
}
