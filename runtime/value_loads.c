/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory for programs of values, several places by one call.
 */
#include "runtime/value_loads.h"

#define GUESSES 32u

struct rt_guess *rt_values_guess(uint32_t program, uint32_t session, uint64_t sp)
{
	static struct rt_guess guesses[GUESSES];
	uint64_t key = (program ^ sp >> 20 << 8) * 0x9e3779b97f4a7c15ull;

	struct rt_guess *guess = &guesses[key >> 32 & (GUESSES - 1)];

	if (rt_unlikely(guess->session != session)) {
		for (uint32_t i = 0; i < RT_READS; i++)
			guess->size[i] = 0;
		guess->session = session;
	}
	return guess;
}

/* Bytes of the buffer that neither what has been read nor the call in the making takes. The pieces
 * lie behind `used`: whoever lets it grow between a piece and its call takes their room. */
static uint32_t room_left(const struct rt_loads *l, const struct rt_read_call *g)
{
	const uint64_t taken = (uint64_t)l->used + g->size;

	return taken < l->room ? (uint32_t)(l->room - taken) : 0;
}

int rt_read_call_add(const struct rt_loads *l, struct rt_read_call *g, uint64_t address,
		     uint64_t size, uint32_t number)
{
	if (g->n == 2 * RT_READS || size > room_left(l, g) || !rt_can_gather(address, size))
		return 0;
	g->pieces[g->n] = (struct rt_piece){address, size};
	g->numbers[g->n++] = (uint8_t)number;
	g->size += (uint32_t)size;
	return 1;
}

void rt_read_call_add_guesses(const struct rt_loads *l, struct rt_read_call *g)
{
	for (uint32_t i = l->nreads; i < RT_READS; i++) {
		uint64_t address = *(volatile uint64_t *)&l->guess->address[i];
		uint32_t size = *(volatile uint16_t *)&l->guess->size[i];

		/* there must always be room for the loads that wait */
		if (address && size && size + RT_WAITING_BYTES <= room_left(l, g))
			rt_read_call_add(l, g, address, size, i);
	}
}

uint32_t rt_read_call_make(struct rt_loads *l, const struct rt_read_call *g, uint32_t needed)
{
	uint32_t first = 0, done = 0, start = l->used, left = g->size;

	l->asked = 1;
	while (first < g->n) {
		uint64_t got = rt_gather(&g->pieces[first], g->n - first, l->bytes + start, left);

		for (; first < g->n && got >= g->pieces[first].size; first++) {
			uint32_t number = g->numbers[first], size = (uint32_t)g->pieces[first].size;

			done |= 1u << first;
			if (number < RT_READS) {
				l->held[number].address = g->pieces[first].address;
				l->held[number].size = size;
				l->held[number].at = start;
			}
			got -= size;
			start += size;
			left -= size;
		}
		if (first >= needed)
			break;
		/* this one cannot be read: its room stays empty */
		start += (uint32_t)g->pieces[first].size;
		left -= (uint32_t)g->pieces[first].size;
		first++;
	}
	return done;
}
