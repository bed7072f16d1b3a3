/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session leaves out: the careful path of a record (IP_MODE_CAREFUL), between the hook and
 * the writing of the record.
 */
#ifndef RT_FILTER_H
#define RT_FILTER_H

#include "runtime/rt.h"

struct rt_event {
	uint64_t time; /* 0: whenever it is written */
	uint64_t sp, caller;
	uint32_t number, kind;
	const struct rt_payload *payload; /* NULL: no values */
};

/* Everything about one event of a thread whose session is careful (filter.c). */
void rt_careful(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp,
		const struct rt_payload *payload);

/* The return address of the function at its entry; for an instance that was inlined the place
 * that it was inlined at. 0: not known. flags, frame: as struct ip_rule has them. */
uint64_t rt_call_site(uint32_t flags, uint32_t frame, uint64_t sp);

/* record.c: writes the record of an event. The guard is ours (nested: that of a hook below). 0:
 * there was no room, the loss is counted. */
int rt_put(struct ip_slot *slot, const struct rt_event *event, int nested);

/* record.c: the time, as the session stamps its events. */
uint64_t rt_stamp(struct ip_slot *slot);

/* record.c: whether a hook at sp is on top of the hook that has set the guard; where it is not,
 * the guard is stale, and what it may still write is marked. */
int rt_is_nested(struct ip_slot *slot, uint64_t sp);

#endif
