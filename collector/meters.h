/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and histograms of a session (common/abi/meters.h: duties and meters). This file gives each
 * function its place in the blocks, keeps the totals, and writes them to DIR/iprobe/counts
 * (common/trace/trace_format.h).
 *
 * Each thread adds to its own block in the area and never reads it back. The collector reads the
 * blocks at intervals and adds the differences to its own totals, so buckets of 32 bits may wrap in
 * between. When a thread has ended, its block is read once more, zeroed, and freed. If the target
 * writes into the blocks, its own figures are wrong and nothing else: all places come from the
 * collector's own tables.
 */
#ifndef IP_METERS_H
#define IP_METERS_H

#include <stdint.h>

#include "hotpatcher/plan/plan.h"
#include "hotpatcher/shm/area.h"
#include "trace_writer/writer.h"

struct ip_counters;

struct ip_payload_rules;
struct ip_user_payload;

/* Computes what a plan needs of the area, with room for functions that may be added later. modules:
 * all modules of the target. lean: the session only watches (area_lean.h): there is little of such
 * room. */
void ip_counters_needs(const struct ip_plan *plan, const struct ip_payload_rules *rules,
		       const struct ip_user_payload *user, const struct ip_modules *modules,
		       const struct ip_area *area, bool lean, struct ip_area_needs *ret);

/* To be called after ip_area_begin(). area and user are borrowed. user is NULL if the session has
 * no user payload. */
int ip_counters_create(struct ip_area *area, const struct ip_user_payload *user,
		       struct ip_counters **ret);
void ip_counters_destroy(struct ip_counters *c);

/* Meters of another kind, in place of counts and histograms. */
struct ip_meter_kind {
	void *data;
	/* A function, which has been bound, goes live: gives it a place in the blocks. Returns -1
	 * with an error. */
	int (*place)(void *data, const struct ip_plan_function *function);
	/* All functions of a plan have been placed. Returns -1 with an error. */
	int (*follow)(void *data, const struct ip_plan *plan);
	/* A thread has ended: release() takes over what its block holds. It returns whether
	 * something must stay in the block. If so, keep() writes that again after the block has
	 * been cleared. */
	bool (*release)(void *data, uint32_t block);
	void (*keep)(void *data, uint32_t block);
};

/* kind is borrowed. NULL: no other kind. c may be NULL. */
void ip_counters_set_kind(struct ip_counters *c, const struct ip_meter_kind *kind);

/* Whether functions that are measured and logged are among the counts that are written (no, if this
 * is not called: readers would count such calls twice). c may be NULL. */
void ip_counters_save_timed(struct ip_counters *c, bool save);

/* Gives the functions of a plan, which has been bound, their duties in this session, and writes
 * them to the trace. To be called before any site of theirs is live. Returns -1 with an error if
 * there is no room for so many. */
int ip_counters_plan(struct ip_counters *c, const struct ip_plan *plan, struct ip_trace *trace);

/* Prints which functions of the plan are measured up to a tail call only: a user who watches a
 * duration must know at once what it covers. Of processes of a service the same is printed once. */
void ip_counters_tell_tails(const struct ip_plan *plan, pid_t pid);

/* Sets the duty of one number, whose probes may be live. tail_exits: as in struct ip_plan_function.
 * Returns 0, or -1 with an error. */
int ip_counters_set(struct ip_counters *c, uint32_t number, uint32_t duty, bool tail_exits);

/* Adds what the threads have counted so far to the totals. c may be NULL. */
void ip_counters_collect(struct ip_counters *c);

/* The slot's thread has ended: adds the rest of its block to the totals and frees the block. c may
 * be NULL. */
void ip_counters_release(struct ip_counters *c, const struct ip_slot *slot);

/* Writes DIR/iprobe/counts and DIR/iprobe/payload.txt, atomically, if any function has a meter. c
 * may be NULL. */
int ip_counters_save(struct ip_counters *c, struct ip_trace *trace);

struct ip_condition_durations;
/* Returns the durations of one number that have been added to the totals so far. */
void ip_counters_durations(struct ip_counters *c, uint32_t number,
			   struct ip_condition_durations *ret);

/* From now on the longest call of the number is found anew for each look: it is taken out of the
 * blocks, and the total keeps it. Does nothing if the number has no meter. */
void ip_counters_keep_max(struct ip_counters *c, uint32_t number);
/* Does the same as ip_counters_collect(), and begins a look: the longest durations are from now on
 * those of the calls since the look before. */
void ip_counters_look(struct ip_counters *c);

/* Returns the number of calls counted and measured so far. c may be NULL. */
uint64_t ip_counters_calls(const struct ip_counters *c);

#endif
