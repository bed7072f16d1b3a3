/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the positions of the rings twice. The values may be anything: they are only added up.
 */
#include "collector/rates.h"

#include <stdlib.h>
#include <time.h>

#include "common/cleanup.h"
#include "hotpatcher/ptrace/stop.h"
#include "hotpatcher/shm/area.h"

struct look {
	uint64_t claimed, words, lost;
};

static uint32_t look(const struct ip_area *area, struct look *ret)
{
	uint32_t used = __atomic_load_n(&area->header->slots_used, __ATOMIC_ACQUIRE);

	used = used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
	for (uint32_t i = 0; i < used; i++) {
		const struct ip_slot *slot = &area->slots[i];
		uint64_t cur = __atomic_load_n(&slot->cur, __ATOMIC_RELAXED),
			 position = cur & IP_POSITION_MASK;

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

bool ip_rates_look(const struct ip_target *target, uint64_t interval_ns, struct ip_rates *ret)
{
	const struct timespec nap = {interval_ns / 1000000000, interval_ns % 1000000000};
	_cleanup_free_ struct look *before = calloc(IP_AREA_SLOTS, sizeof(*before)),
				   *now = calloc(IP_AREA_SLOTS, sizeof(*now));
	struct ip_area *area = NULL;
	uint64_t words = 0, lost, began;
	uint32_t used;

	if (!before || !now || !target->has_runtime || ip_area_open(target, &area) < 0)
		return false;
	if (!ip_area_has_session(area)) {
		ip_area_close(area);
		return false;
	}
	*ret = (struct ip_rates){.iprobe = ip_area_owner(area)};
	began = ip_now_ns();
	lost = area->header->unserved;
	look(area, before);
	nanosleep(&nap, NULL);
	lost = grown(area->header->unserved, lost, true);
	used = look(area, now);
	ret->interval_ns = ip_now_ns() - began;
	for (uint32_t i = 0; i < used; i++) {
		bool same = now[i].claimed == before[i].claimed;

		words += grown(now[i].words, before[i].words, same);
		lost += grown(now[i].lost, before[i].lost, same);
	}
	ret->events = a_second(words, ret->interval_ns);
	ret->bytes = a_second(8 * words, ret->interval_ns);
	ret->lost = a_second(lost, ret->interval_ns);
	ip_area_close(area);
	return true;
}
