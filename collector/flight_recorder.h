/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that overwrite (flight recorder): the collector drains nothing while a thread lives;
 * what the rings hold is the window. It is written when somebody asks for it, and at the end.
 *
 * Threads that have ended leave theirs to us, so that slots and sub-buffers are free for others: as
 * packets in our own memory, as much as the rings have, the oldest go first.
 *
 * Reading the ring of a thread that runs on:
 *
 *   1. List its sub-buffers, by ordinal.
 *   2. Copy each, the oldest first: it is the next to be overwritten. Of the one in use as much as
 *      was reserved.
 *   3. Look at its descriptor again. Whoever takes a sub-buffer away names it nobody's before
 *      changing a word: one that still has its slot and ordinal was whole. Else it is torn; it and
 *      all before it are left out, since the oldest goes first.
 *   4. Read the tail. It tells how many events were overwritten before the ordinal that is the
 *      oldest now; what was copied before that is taken off. What was copied in part, in use, and
 *      has been overwritten since, is torn.
 */
#ifndef IP_FLIGHT_RECORDER_H
#define IP_FLIGHT_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_writer/writer.h"

struct ip_collector;
struct ip_flight_recorder;

/* What was written. */
struct ip_flight_recorder_counts {
	uint64_t events, lost, invalid, overwritten, torn;
};

/* For a session whose area has IP_MODE_OVERWRITE. */
int ip_flight_recorder_begin(struct ip_collector *c);
void ip_flight_recorder_destroy(struct ip_flight_recorder *w);

/* Takes what the thread of a slot that writes no more has left. at: when losses behind that were,
 * or later (TSC). */
int ip_flight_recorder_end_slot(struct ip_collector *c, uint32_t index, uint64_t at);
/* Behind it: the thread has ended, between the two. */
int ip_flight_recorder_tell_end(struct ip_collector *c, uint32_t index, uint64_t alive,
				uint64_t gone);
/* The claim ends: what was overwritten of it is kept in mind. */
void ip_flight_recorder_release(struct ip_collector *c, uint32_t index);

/* Now and then: shares the memory out. A thread that needs no more than its equal part leaves the
 * rest to the others. */
void ip_flight_recorder_share(struct ip_collector *c);

/* What is kept of threads that have ended is bounded. */
void ip_flight_recorder_trim(struct ip_collector *c);

/* Writes what there is now into the trace; the threads go on. */
int ip_flight_recorder_snapshot(struct ip_collector *c, struct ip_trace *trace,
				struct ip_flight_recorder_counts *ret);
/* At the end, when all claims are released: writes it into the session's own. */
int ip_flight_recorder_finish(struct ip_collector *c);

/* Events that were overwritten so far, and those that are kept, all threads together. */
uint64_t ip_flight_recorder_overwritten(const struct ip_collector *c);
uint64_t ip_flight_recorder_kept(const struct ip_collector *c);

#endif
