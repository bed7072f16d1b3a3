/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a session leaves out: the careful path of a record (IP_MODE_CAREFUL). It lies between the
 * hook and the writing of the record.
 */
#ifndef RT_FILTER_H
#define RT_FILTER_H

#include "runtime/rt.h"

struct rt_event {
	uint64_t time; /* 0: the time at which the record is written */
	uint64_t sp, caller;
	uint32_t number, kind;
	const struct rt_payload *payload; /* NULL: no values */
	uint32_t out;			  /* 1: the condition of --when is not true */
};

/* The rule of a function; one that has none, or whose number is out of bounds: all 0. */
static inline struct ip_filter_rule rule_of(uint32_t number)
{
	static const struct ip_filter_rule none;

	return number < rt_filters->nrules && number < *(volatile uint32_t *)&rt_nrules
		       ? *(volatile struct ip_filter_rule *)&rt_rules[number]
		       : none;
}

/* Handles one event of a thread whose session is careful (filter.c). out: as in struct rt_event. */
void rt_careful(struct ip_slot *slot, uint32_t number, uint32_t kind, uint64_t sp,
		const struct rt_payload *payload, int out);

/* Returns the function's return address, at its entry. For an inlined instance it returns the
 * address that the instance was inlined at. 0: not known. flags and frame are as in struct
 * ip_rule. */
uint64_t rt_call_site(uint32_t flags, uint32_t frame, uint64_t sp);

/* record.c: writes the record of an event. The caller holds the guard; nested: a hook below holds
 * it. Returns 0 if there was no room; then the loss is counted. */
int rt_put(struct ip_slot *slot, const struct rt_event *event, int nested);

/* record.c: the present time, by the clock that the session's stamps use. */
uint64_t rt_stamp(struct ip_slot *slot);

/* record.c: whether a hook at sp runs on top of the hook that has set the guard. If it does not,
 * the guard is stale. Then this function marks the sub-buffers in which the other hook may still
 * write. */
int rt_is_nested(struct ip_slot *slot, uint64_t sp);

#endif
