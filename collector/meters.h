/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and histograms of a session (common/abi/meters.h: duties and meters): who counts where,
 * what has been counted so far, and DIR/iprobe/counts, which says it (common/trace_format.h).
 *
 * Threads add to blocks of their own in the area and never look back. We read the blocks now and
 * then and add what has come since to totals of our own: buckets of 32 bits may wrap in between. A
 * block whose thread has ended is read once more, zeroed, and given back. What the target scribbles
 * there makes its own figures wrong and nothing else: places follow from our own tables.
 */
#ifndef IP_METERS_H
#define IP_METERS_H

#include <stdint.h>

#include "hotpatcher/plan/plan.h"
#include "hotpatcher/shm/area.h"
#include "trace_writer/writer.h"

struct ip_counters;

struct ip_payload_rules;
struct ip_user;

/* What a plan needs of the area, with room for what may be added later. modules: all that are
 * there. */
void ip_counters_needs(const struct ip_plan *plan, const struct ip_payload_rules *rules,
		       const struct ip_user *user, const struct ip_modules *modules,
		       const struct ip_area *area, struct ip_area_needs *ret);

/* After ip_area_begin(). area and user (NULL: the session has no payload of the user's) are
 * borrowed. */
int ip_counters_create(struct ip_area *area, const struct ip_user *user, struct ip_counters **ret);
void ip_counters_destroy(struct ip_counters *c);

/* Meters of somebody else, in place of counts and histograms. */
struct ip_meter_kind {
	void *data;
	/* A function, which has been bound, goes live: its place in the blocks. -1 with an
	 * error. */
	int (*place)(void *data, const struct ip_plan_function *function);
	/* All of a plan have been placed. -1 with an error. */
	int (*follow)(void *data, const struct ip_plan *plan);
	/* A thread has ended: takes over what its block holds. Whether something must stay in
	 * it: then keep() notes that again when the block has been cleared. */
	bool (*release)(void *data, uint32_t block);
	void (*keep)(void *data, uint32_t block);
};

/* Borrowed; NULL: there are none. c may be NULL. */
void ip_counters_set_kind(struct ip_counters *c, const struct ip_meter_kind *kind);

/* Gives the functions of a plan, which has been bound, their duties in this session, before any
 * site of theirs is live, and tells the trace. -1 with an error: there is no room for so many. */
int ip_counters_plan(struct ip_counters *c, const struct ip_plan *plan, struct ip_trace *trace);

/* The same for one number, whose probes may be live. tail_exits: as in struct ip_plan_function. 0,
 * or -1 with an error. */
int ip_counters_set(struct ip_counters *c, uint32_t number, uint32_t duty, bool tail_exits);

/* Takes over what threads have counted by now. c may be NULL. */
void ip_counters_collect(struct ip_counters *c);

/* The thread that has the slot has ended: takes over the last of its block and frees it. c may be
 * NULL. */
void ip_counters_release(struct ip_counters *c, const struct ip_slot *slot);

/* Writes DIR/iprobe/counts and DIR/iprobe/payload.txt, atomically, where there is anything to
 * count. c may be NULL. */
int ip_counters_save(struct ip_counters *c, struct ip_trace *trace);

struct ip_condition_durations;
/* Durations of one number that have been taken over so far. */
void ip_counters_durations(struct ip_counters *c, uint32_t number,
			   struct ip_condition_durations *ret);

/* Calls counted and measured so far. c may be NULL. */
uint64_t ip_counters_calls(const struct ip_counters *c);

#endif
