/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the positions of the rings twice. The values may be anything: they are only added up.
 */
#include "collector/rates.h"

#include <stdlib.h>
#include <time.h>

#include "hotpatcher/ptrace/stop.h"

struct look {
	uint64_t claimed, words, lost;
};

struct ip_ring_looks {
	struct look items[2][IP_AREA_SLOTS];
	unsigned now; /* of items */
	uint64_t unserved;
};

static uint32_t look(const struct ip_area *area, struct look *ret)
{
	uint32_t used = __atomic_load_n(&area->header->slots_used, __ATOMIC_ACQUIRE);

	used = used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
	for (uint32_t i = 0; i < used; i++) {
		const struct ip_slot *slot = &area->slots[i];
		uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_RELAXED),
			 position = cur & IP_POSITION_MASK;

		ret[i] = (struct look){0};
		if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != IP_SLOT_CLAIMED)
			continue;
		/* the first word of a sub-buffer is not a record */
		ret[i] = (struct look){
			slot->claimed,
			position - (position + IP_SUBBUF_WORDS - 1) / IP_SUBBUF_WORDS, slot->lost};
	}
	return used;
}

/* Returns what has come since the first look. For a claim that began meanwhile (same is false) this
 * is all it has. */
static uint64_t grown(uint64_t now, uint64_t before, bool same)
{
	return !same ? now : now > before ? now - before : 0;
}

static uint64_t a_second(uint64_t n, uint64_t ns)
{
	return ns ? (uint64_t)((unsigned __int128)n * 1000000000 / ns) : 0;
}

struct ip_ring_looks *ip_ring_looks_create(void)
{
	return calloc(1, sizeof(struct ip_ring_looks));
}

void ip_ring_looks_destroy(struct ip_ring_looks *looks)
{
	free(looks);
}

uint64_t ip_ring_looks_grown(struct ip_ring_looks *l, const struct ip_area *area,
			     uint64_t *ret_lost)
{
	const struct look *before = l->items[l->now];
	struct look *now = l->items[!l->now];
	const uint64_t unserved = area->header->unserved;
	uint64_t words = 0, lost = grown(unserved, l->unserved, true);
	const uint32_t used = look(area, now);

	for (uint32_t i = 0; i < used; i++) {
		const bool same = now[i].claimed == before[i].claimed;

		words += grown(now[i].words, before[i].words, same);
		lost += grown(now[i].lost, before[i].lost, same);
	}
	l->now = !l->now;
	l->unserved = unserved;
	if (ret_lost)
		*ret_lost = lost;
	return words;
}

bool ip_rates_look(const struct ip_target *target, uint64_t interval_ns, struct ip_rates *ret)
{
	const struct timespec nap = {interval_ns / 1000000000, interval_ns % 1000000000};
	struct ip_ring_looks *looks = ip_ring_looks_create();
	struct ip_area *area = NULL;
	uint64_t words, lost, began;
	bool found = looks && target->has_runtime && ip_area_open(target, &area) == 0 &&
		     ip_area_has_session(area);

	if (found) {
		*ret = (struct ip_rates){.iprobe = ip_area_owner(area)};
		began = ip_now_ns();
		ip_ring_looks_grown(looks, area, NULL);
		nanosleep(&nap, NULL);
		words = ip_ring_looks_grown(looks, area, &lost);
		ret->interval_ns = ip_now_ns() - began;
		ret->events = a_second(words, ret->interval_ns);
		ret->bytes = a_second(8 * words, ret->interval_ns);
		ret->lost = a_second(lost, ret->interval_ns);
	}
	ip_area_close(area);
	ip_ring_looks_destroy(looks);
	return found;
}
