/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the records of a perf ring.
 */
#include "kernel_trace/perf/perf_ring.h"

#include <string.h>

#include "common/error.h"
#include "kernel_trace/perf/perf_clock.h"

#define HEADER	     sizeof(struct perf_event_header)
#define SAMPLE_LEAST (HEADER + 8 + 4) /* time, size of the tracepoint's record */
#define LOST_LEAST   (HEADER + 8 + 8) /* id, number */
#define FULL	     1024u	      /* less room than this: the next sample may have had none */

void ip_perf_ring_init(struct ip_perf_ring *ring, struct perf_event_mmap_page *page,
		       const uint8_t *data, uint64_t size)
{
	*ring = (struct ip_perf_ring){
		.page = page, .data = data, .size = size, .until = UINT64_MAX};
}

static uint64_t read_head(const struct ip_perf_ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
}

/* The record at a place of the ring; there are `left` bytes from there on. NULL: none that can be.
 */
static const uint8_t *record_at(const struct ip_perf_ring *ring, struct ip_perf_batch *batch,
				uint64_t at, uint64_t left, struct perf_event_header *ret)
{
	const uint64_t offset = at & (ring->size - 1), before_end = ring->size - offset;

	if (left < HEADER || offset % 8)
		return NULL;
	memcpy(ret, ring->data + offset, HEADER); /* records are multiples of 8 bytes */
	if (ret->size < HEADER || ret->size % 8 || ret->size > left)
		return NULL;
	if (ret->size <= before_end)
		return ring->data + offset;
	memcpy(batch->copy, ring->data + offset, before_end);
	memcpy(batch->copy + before_end, ring->data, ret->size - before_end);
	return batch->copy;
}

static bool take_sample(const uint8_t *record, size_t size, struct ip_perf_sample *ret)
{
	if (size < SAMPLE_LEAST)
		return false;
	memcpy(&ret->ns, record + HEADER, sizeof(ret->ns));
	memcpy(&ret->size, record + HEADER + 8, sizeof(ret->size));
	ret->record = record + SAMPLE_LEAST;
	return ret->size <= size - SAMPLE_LEAST;
}

/* Samples are in order of time but for a few. */
static void sort(struct ip_perf_sample *samples, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const struct ip_perf_sample one = samples[i];
		size_t to = i;

		for (; to && samples[to - 1].ns > one.ns; to--)
			samples[to] = samples[to - 1];
		samples[to] = one;
	}
}

static int pass(const struct ip_perf_ring *ring, struct ip_perf_batch *batch, size_t n,
		struct ip_perf_clock *clock, const struct ip_record_sink *taker)
{
	sort(batch->samples, n);
	for (size_t i = 0; i < n; i++) {
		const struct ip_perf_sample *s = &batch->samples[i];
		const uint64_t tsc = ip_perf_clock_tsc(clock, s->ns);

		if (tsc < ring->from || tsc > ring->until)
			continue;
		if (taker->record(taker->context, s->record, s->size, tsc) < 0)
			return -1;
	}
	return 0;
}

/* Step 3. */
static void note_full(struct ip_perf_ring *ring, uint64_t tail)
{
	const uint64_t head = read_head(ring);

	if (ring->unsure && head != ring->full_head)
		ring->unsure = false;
	if (ring->unsure || head - tail <= ring->size - FULL)
		return;
	ring->full_head = head;
	ring->unsure = true;
	ring->told = false;
}

/* What may be lost is told behind the last sample before it: nobody is to take what was passed on
 * up to there for all that has happened. */
static int tell_unsure(struct ip_perf_ring *ring, uint64_t at, const struct ip_record_sink *taker)
{
	if (!ring->unsure || ring->told || at != ring->full_head)
		return 0;
	ring->told = true;
	return taker->lost(taker->context, ip_perf_ring_lost(ring));
}

/* Gathers samples up to a loss, which is counted, or the head. */
static int gather(struct ip_perf_ring *ring, struct ip_perf_batch *batch, uint64_t *at,
		  uint64_t head, size_t *ret)
{
	while (*at != head && *ret < IP_PERF_BATCH) {
		struct perf_event_header header;
		const uint8_t *record = record_at(ring, batch, *at, head - *at, &header);
		uint64_t lost;

		if (!record ||
		    (header.type == PERF_RECORD_SAMPLE &&
		     !take_sample(record, header.size, &batch->samples[*ret])) ||
		    (header.type == PERF_RECORD_LOST && header.size < LOST_LEAST))
			return ip_error("a perf ring holds a record that cannot be");
		*at += header.size;
		if (header.type == PERF_RECORD_SAMPLE)
			++*ret;
		if (header.type != PERF_RECORD_LOST)
			continue;
		memcpy(&lost, record + HEADER + 8, sizeof(lost));
		ring->lost += lost;
		return 1;
	}
	return 0;
}

int ip_perf_ring_read(struct ip_perf_ring *ring, struct ip_perf_batch *batch,
		      struct ip_perf_clock *clock, const struct ip_record_sink *taker)
{
	const uint64_t tail = ring->page->data_tail, head = read_head(ring);
	uint64_t at = tail;
	size_t n = 0;
	int ended;

	if (head - tail > ring->size)
		return ip_error("a perf ring holds more than it has room for");
	do {
		n = 0;
		ended = gather(ring, batch, &at, head, &n);
		if (ended < 0 || pass(ring, batch, n, clock, taker) < 0)
			return -1;
		if (ended && taker->lost(taker->context, ring->lost) < 0)
			return -1;
	} while (ended);
	note_full(ring, tail);
	__atomic_store_n(&ring->page->data_tail, at, __ATOMIC_RELEASE);
	return tell_unsure(ring, at, taker) < 0 ? -1 : at != head;
}

uint64_t ip_perf_ring_lost(const struct ip_perf_ring *ring)
{
	return ring->lost + ring->unsure;
}
