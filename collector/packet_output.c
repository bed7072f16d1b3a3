/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what was drained, at once or through the compressor (compressor.h). In both cases the
 * slot's progress is updated at once. The journal gets it when the packet is written.
 */
#include <errno.h>
#include <string.h>

#include "collector/collector_private.h"
#include "common/error.h"

/* one in so many sub-buffers may be in the compressor */
#define COMPRESSOR_SHARE 4u
#define COMPRESSOR_LEAST 2u
#define COMPRESSOR_MOST	 512u

bool ip_drain_is_out_of_space(int error)
{
	return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

void ip_drain_advance(struct ip_collector *c, uint32_t slot, const struct ip_progress *next)
{
	struct ip_progress *p = &c->slots[slot].p;

	c->events += next->events - p->events;
	c->invalid += next->invalid - p->invalid;
	c->beyond += next->beyond - p->beyond;
	c->lost_done += next->lost_before - p->lost_before;
	*p = *next;
}

/* The packet was counted as written, and now there is no room for it. */
static int drop(struct ip_collector *c, const struct ip_compressor_packet *note)
{
	struct ip_progress now = c->slots[note->slot].p;

	now.events -= note->events;
	now.beyond += note->events;
	ip_drain_advance(c, note->slot, &now);
	if (ip_trace_note_progress(c->trace, note->slot, &now) < 0 &&
	    !ip_drain_is_out_of_space(errno))
		return -1;
	return 0;
}

/* Writes the oldest packet that is in the compressor. Returns 1; 0 if there is none or
 * (IP_COMPRESSOR_READY) it is not ready; -1 with an error. */
static int write_oldest(struct ip_collector *c, enum ip_compressor_how how)
{
	const struct ip_compressor_packet *note;
	const void *bytes;
	size_t size;

	if (!c->compressor || !ip_compressor_take(c->compressor, how, &note, &bytes, &size))
		return 0;
	c->on_its_way -= note->plain;
	if (!c->no_space &&
	    ip_trace_append_encoded(c->trace, note->slot, bytes, size, &note->next) < 0) {
		if (!ip_drain_is_out_of_space(errno))
			return -1;
		c->full = c->no_space = true;
	}
	if (c->no_space && drop(c, note) < 0)
		return -1;
	if (note->subbuf != IP_NO_SLOT)
		ip_drain_give_back(c, note->subbuf);
	return 1;
}

int ip_drain_write_ready(struct ip_collector *c)
{
	int done;

	while ((done = write_oldest(c, IP_COMPRESSOR_READY)) > 0)
		;
	return done;
}

int ip_drain_settle(struct ip_collector *c)
{
	int done;

	while ((done = write_oldest(c, IP_COMPRESSOR_WAIT)) > 0)
		;
	return done;
}

/* Does what ip_drain_settle() does, and corrects next, which was made from the slot's earlier
 * progress. */
static int settle_for(struct ip_collector *c, uint32_t slot, struct ip_progress *next)
{
	const struct ip_progress *p = &c->slots[slot].p;

	if (ip_drain_settle(c) < 0)
		return -1;
	next->events = p->events;
	next->beyond = p->beyond;
	return 0;
}

int ip_drain_note(struct ip_collector *c, uint32_t slot, struct ip_progress *next)
{
	if (settle_for(c, slot, next) < 0)
		return -1;
	if (ip_trace_note_progress(c->trace, slot, next) < 0 && !ip_drain_is_out_of_space(errno))
		return -1;
	ip_drain_advance(c, slot, next);
	return 0;
}

static int compressor(struct ip_collector *c, uint32_t slot, uint32_t subbuf,
		      struct ip_packet_header *header, size_t n, const struct ip_progress *next)
{
	const struct ip_compressor_packet note = {.slot = slot,
						  .subbuf = subbuf,
						  .events = next->events - c->slots[slot].p.events,
						  .plain =
							  sizeof(*header) + n * sizeof(*c->records),
						  .next = *next};
	unsigned limit = c->area->nsubbufs / COMPRESSOR_SHARE;

	if (!c->compressor) {
		limit = limit < COMPRESSOR_LEAST  ? COMPRESSOR_LEAST
			: limit > COMPRESSOR_MOST ? COMPRESSOR_MOST
						  : limit;
		c->compressor = ip_compressor_create(limit, c->nice);
		if (!c->compressor)
			return -1;
	}
	if (ip_trace_prepare_packet(c->trace, slot, header, n) < 0)
		return -1;
	ip_compressor_submit(c->compressor, header, c->records, n, &note);
	c->on_its_way += note.plain;
	ip_drain_advance(c, slot, next);
	return subbuf != IP_NO_SLOT;
}

int ip_drain_put(struct ip_collector *c, uint32_t slot, uint32_t subbuf, struct ip_progress *next,
		 const struct ip_checked_records *found, uint64_t discarded)
{
	const struct ip_progress *p = &c->slots[slot].p;
	size_t size = sizeof(struct ip_packet_header) + found->words * sizeof(*c->records);
	struct ip_packet_header header = {.timestamp_begin = found->begin,
					  .timestamp_end = found->end,
					  .pid = p->pid,
					  .tid = p->tid};

	while (c->compressor && ip_compressor_is_full(c->compressor))
		if (write_oldest(c, IP_COMPRESSOR_MUST) < 0)
			return -1;
	/* The sizes of packets in the compressor are known only when they are written. */
	if (c->on_its_way &&
	    ip_trace_limited_bytes(c->trace) + c->on_its_way + size > c->max_size &&
	    ip_drain_settle(c) < 0)
		return -1;
	if (ip_trace_compresses(c->trace)) { /* some packets may have been dropped meanwhile */
		next->events = p->events;
		next->beyond = p->beyond;
	}
	header.events_discarded = discarded < p->last_discarded ? p->last_discarded : discarded;
	c->full |= ip_trace_limited_bytes(c->trace) + size > c->max_size;
	if (!c->full) {
		next->events += found->events;
		next->last_discarded = header.events_discarded;
		if (found->words && found->end > next->last)
			next->last = found->end;
		if (ip_trace_compresses(c->trace))
			return compressor(c, slot, subbuf, &header, found->words, next);
		if (ip_trace_write_packet(c->trace, slot, &header, c->records, found->words,
					  next) == 0) {
			ip_drain_advance(c, slot, next);
			return 0;
		}
		if (!ip_drain_is_out_of_space(errno))
			return -1;
		c->full = c->no_space = true;
		next->events = p->events;
		next->last_discarded = p->last_discarded;
	}
	next->last = p->last;
	/* Once full, always full: a later, smaller packet would make it look as if nothing were
	 * missing. */
	if (settle_for(c, slot, next) < 0)
		return -1;
	next->beyond += found->events;
	if (ip_trace_note_progress(c->trace, slot, next) < 0 && !ip_drain_is_out_of_space(errno))
		return -1;
	ip_drain_advance(c, slot, next);
	return 0;
}
