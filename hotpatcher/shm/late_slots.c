/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frees slots between two sessions, and tells whether hooks are in flight.
 */
#include "hotpatcher/shm/late_slots.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/file.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/meter_blocks.h"

/* Returns the value of cur for which hooks of a session with these modes find no sub-buffer, and no
 * room for one word (runtime/record.c, A3). */
static uint64_t cur_of_none(uint32_t modes)
{
	return IP_NO_SUBBUF << IP_POSITION_BITS |
	       (modes & IP_MODE_COARSE ? IP_SUBBUF_WORDS - IP_SUBBUF_SPARE : 0);
}

/* Whether the slot says that a hook is in flight, of whatever session. */
static bool is_in_flight(const struct ip_slot *slot)
{
	const uint32_t state = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);

	return state == IP_SLOT_CLAIMING || state == IP_SLOT_UNFINISHED || slot->guard ||
	       ((slot->modes & IP_MODE_PAYLOADS) && slot->oldest);
}

/* Whether the slot's thread has ended for sure; then it is in no hook. Numbers are those of the
 * target's namespace. */
static bool has_ended(pid_t pid, uint32_t tid)
{
	char name[32];

	if (!tid || ip_proc_inner_pid(pid) != pid)
		return false;
	snprintf(name, sizeof(name), "/proc/%u", tid);
	return ip_access(name, F_OK) < 0 && errno == ENOENT;
}

void ip_late_slots_forget(struct ip_area *area, pid_t pid)
{
	for (unsigned i = 0; i < IP_AREA_SLOTS; i++) {
		struct ip_slot *slot = &area->slots[i];
		const uint32_t state = slot->state;
		const bool late = ip_blocks_is_late(slot);

		/* a hook of the slot's own session may be about to read cur, so it gets the value
		 * for that session */
		__atomic_store_n(&slot->cur, cur_of_none(slot->modes), __ATOMIC_SEQ_CST);
		if (late) {
			slot->state = state == IP_SLOT_CLAIMING ? IP_SLOT_UNFINISHED : IP_SLOT_LATE;
			slot->block = 0; /* the block belongs to another thread from now on */
			continue;
		}
		if (is_in_flight(slot) && !has_ended(pid, slot->tid))
			area->header->doubt = 1;
		memset(&slot->guard, 0, sizeof(*slot) - offsetof(struct ip_slot, guard));
	}
}

bool ip_late_slots_any(const struct ip_area *area, pid_t pid, uint32_t *ret_tid)
{
	*ret_tid = 0;
	if (__atomic_load_n(&area->header->doubt, __ATOMIC_RELAXED))
		return true;
	for (unsigned i = 0; i < IP_AREA_SLOTS; i++) {
		const struct ip_slot *slot = &area->slots[i];
		const uint32_t tid = __atomic_load_n(&slot->tid, __ATOMIC_RELAXED);

		if (!is_in_flight(slot) || has_ended(pid, tid))
			continue;
		*ret_tid = tid;
		return true;
	}
	return false;
}
