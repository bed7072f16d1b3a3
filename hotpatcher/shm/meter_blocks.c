/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides memory into blocks of meters, halves the blocks, and avoids late memory. The steps are
 * described in meter_blocks.h; comments here refer to them.
 */
#include "hotpatcher/shm/meter_blocks.h"

#include "common/error.h"
#include "common/units.h"
#include "hotpatcher/shm/area.h"

#define METERS_DEPTH 166u /* frames; with the head they take a page, less 48 bytes */
#define LINE	     128u

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

bool ip_blocks_is_late(const struct ip_slot *slot)
{
	uint32_t state = slot->state;

	/* these states hold for one session only */
	if (state == IP_SLOT_LATE || state == IP_SLOT_UNFINISHED)
		return false;
	return state == IP_SLOT_CLAIMING || slot->guard ||
	       ((slot->modes & IP_MODE_PAYLOADS) && slot->oldest);
}

void ip_blocks_each_late(const struct ip_area *area,
			 void (*visit)(void *data, uint64_t from, uint64_t to), void *data)
{
	/* each field is read once: the target may change it */
	const volatile struct ip_area_header *h = area->header;
	/* The target may have overwritten the header. Then it damages only its own trace. */
	uint64_t at = h->meters, size = h->meters_size, all = h->meters_all, n = h->nmeters;

	if (!n || n > all || all > IP_AREA_SLOTS || at < IP_AREA_DATA_OFFSET || at > area->window ||
	    !size || size > (area->window - at) / all)
		return;
	for (unsigned i = 0; i < IP_AREA_SLOTS; i++) {
		const struct ip_slot *slot = &area->slots[i];

		if (!(slot->modes & IP_MODE_PAYLOADS) || !ip_blocks_is_late(slot))
			continue;
		for (uint64_t b = slot->block; b < all; b += n)
			visit(data, at + b * size, at + (b + 1) * size);
		/* the shared block, where the hook reads about the user's payload or FPerf */
		for (uint64_t b = 0; (h->user || h->fperf) && slot->block && b < all; b += n)
			visit(data, at + b * size, at + (b + 1) * size);
	}
}

static void note_end(void *data, uint64_t from, uint64_t to)
{
	uint64_t *end = data;

	*end = to > *end ? to : *end;
}

int ip_blocks_divide(struct ip_area *area, uint64_t room, bool frames, uint64_t memory,
		     uint64_t *ret_left)
{
	struct ip_blocks *b = &area->blocks;
	uint64_t head, n = 1, late = 0;
	char have[16], need[16];

	*b = (struct ip_blocks){.most = b->most, .alone = b->alone};
	*ret_left = memory;
	if (!room)
		return 0;
	b->depth = frames ? METERS_DEPTH : 0;
	head = round_up(IP_METERS_HEAD + b->depth * sizeof(struct ip_meters_frame), LINE);
	b->size = head + round_up(room, LINE);
	while (n < (b->most ? b->most : IP_AREA_SLOTS) && 2 * n * b->size <= memory / 2)
		n *= 2;
	if (n < 2 || b->size > UINT32_MAX / 16)
		return ip_error("what is counted and measured takes %s a thread: select fewer "
				"functions, or give more than %s with --memory",
				ip_format_size(b->size, need), ip_format_size(memory, have));
	b->n = b->all = n;
	b->rooms[0].low = head;
	b->rooms[0].high = b->size;
	b->nrooms = 1;
	/* there are never fewer sub-buffers than that: no block may lie in them */
	*ret_left = b->alone ? 0 : memory - n * b->size;
	if (*ret_left < IP_SUBBUFS_LEAST * IP_SUBBUF_SIZE)
		*ret_left = IP_SUBBUFS_LEAST * IP_SUBBUF_SIZE;
	b->at = IP_AREA_DATA_OFFSET + *ret_left / IP_SUBBUF_SIZE * IP_SUBBUF_SIZE;
	ip_blocks_each_late(area, note_end, &late);
	if (b->at < late)
		b->at = round_up(late, 4096);
	if (b->at < IP_AREA_DATA_OFFSET + (IP_COVER_LAST + 1ull) * IP_SUBBUF_SIZE &&
	    b->at + n * b->size > ip_area_cover(1))
		b->at = IP_AREA_DATA_OFFSET + (IP_COVER_LAST + 1ull) * IP_SUBBUF_SIZE;
	return 0;
}

static struct ip_meters *block(const struct ip_area *area, uint64_t i)
{
	return ip_area_meters(area, i);
}

/* Does steps 1 to 3. */
static bool halve(struct ip_area *area)
{
	struct ip_blocks *b = &area->blocks;
	uint32_t half = b->n / 2, i;

	if (half < 2 || b->nrooms + b->all / b->n > IP_BLOCKS_ROOMS)
		return false;
	__atomic_store_n(&area->header->nmeters, half, __ATOMIC_SEQ_CST);
	for (i = half; i < b->n; i++) {
		uint32_t expected = IP_METERS_FREE;

		if (!__atomic_compare_exchange_n(&block(area, i)->state, &expected, IP_METERS_PART,
						 false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			break;
	}
	if (i < b->n) {
		while (i-- > half)
			__atomic_store_n(&block(area, i)->state, IP_METERS_FREE, __ATOMIC_SEQ_CST);
		__atomic_store_n(&area->header->nmeters, b->n, __ATOMIC_SEQ_CST);
		return false;
	}
	for (uint32_t first = half; first < b->all; first += b->n) {
		b->rooms[b->nrooms].low = first * b->size + LINE;
		b->rooms[b->nrooms++].high = (first + 1) * b->size;
	}
	b->n = half;
	return true;
}

/* Reserves bytes in a room that has enough left. Meters of whole lines take them from the bottom,
 * other meters from the top. So no line is lost between them. */
static uint32_t find(struct ip_blocks *b, uint32_t bytes)
{
	for (uint32_t i = 0; i < b->nrooms; i++) {
		if (b->rooms[i].high - b->rooms[i].low < bytes)
			continue;
		if (bytes % LINE)
			return b->rooms[i].high -= bytes;
		b->rooms[i].low += bytes;
		return b->rooms[i].low - bytes;
	}
	return 0;
}

uint32_t ip_blocks_place(struct ip_area *area, uint32_t bytes)
{
	uint32_t offset = find(&area->blocks, bytes);

	while (!offset && bytes <= area->blocks.size - LINE && halve(area))
		offset = find(&area->blocks, bytes);
	return offset;
}

uint32_t ip_blocks_part(const struct ip_area *area, uint32_t i, uint32_t offset,
			uint32_t *ret_inside)
{
	*ret_inside = offset % area->blocks.size;
	return i + offset / area->blocks.size;
}
