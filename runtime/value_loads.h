/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a program of values reads through pointers: what is held for its reads, and the calls
 * that read for several of them at once. runtime/values.c describes when that is done.
 */
#ifndef RT_VALUE_LOADS_H
#define RT_VALUE_LOADS_H

#include "runtime/rt.h"
#include "runtime/values.h"

/* Number of the next read. The address is noted for the next run. */
static inline uint32_t rt_loads_number(struct rt_loads *l, uint64_t address, uint64_t size)
{
	uint32_t number = l->nreads++;

	if (number < RT_READS && l->guess->address[number] != address)
		l->guess->address[number] = address;
	if (number < RT_READS && l->guess->size[number] != size)
		l->guess->size[number] = (uint16_t)size;
	return number;
}

/* Bytes that are held for a read, at least size of them; NULL: there are none. */
static inline const uint8_t *rt_loads_held(const struct rt_loads *l, uint32_t number,
					   uint64_t address, uint64_t size)
{
	return number < RT_READS && l->held[number].size >= size && size &&
			       l->held[number].address == address
		       ? l->bytes + l->held[number].at
		       : NULL;
}

/* One call in the making. */
struct rt_read_call {
	struct rt_piece pieces[2 * RT_READS];
	uint8_t numbers[2 * RT_READS]; /* of reads that the pieces are held for; RT_READS: none */
	uint32_t n;
	uint32_t size; /* bytes of all pieces */
};

/* The kernel refuses the whole call if one piece is not in the part of the address space that
 * belongs to programs. Addresses above these 47 bits are rare, and are read one by one. */
static inline int rt_can_gather(uint64_t address, uint64_t size)
{
	return address < (1ull << 47) - 4096 && size < 4096;
}

/* Adds a piece for the read of that number (RT_READS: for none). Returns 0 if it has no room, or
 * cannot be read together with others. */
int rt_read_call_add(const struct rt_loads *loads, struct rt_read_call *call, uint64_t address,
		     uint64_t size, uint32_t number);

/* Adds what later reads of the program will want, if they find it where they did the last time. */
void rt_read_call_add_guesses(const struct rt_loads *loads, struct rt_read_call *call);

/* Makes the call. Pieces in front of `needed` are skipped if they cannot be read, and the rest is
 * read by another call; the guesses behind them are given up. Returns one bit for each piece that
 * has been read. */
uint32_t rt_read_call_make(struct rt_loads *loads, const struct rt_read_call *call,
			   uint32_t needed);

#endif
