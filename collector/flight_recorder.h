/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that overwrite (flight recorder). The collector drains nothing while a thread lives. The
 * rings hold the newest events, which are written when a snapshot is asked for, and at the end.
 *
 * When a thread has ended, the collector copies its events as packets into its own memory, so that
 * slot and sub-buffers are free for other threads. This memory is at most as large as the rings.
 * The oldest packets are dropped first.
 *
 * Reading the ring of a thread that runs on:
 *
 *   1. List its sub-buffers, by ordinal.
 *   2. Copy each, the oldest first, since it is the next to be overwritten. Of the current
 *      sub-buffer, copy the words that were reserved.
 *   3. Look at its descriptor again. Before a thread or the collector changes a word of a
 *      sub-buffer that it takes away, it sets the descriptor's slot to none. So if slot and ordinal
 *      are unchanged, the copy is complete. Otherwise the copy is torn. It is left out, and so are
 *      all before it, since the oldest sub-buffer is overwritten first.
 *   4. Read the tail. It says how many events were overwritten before the ordinal that is now the
 *      oldest. Events of older sub-buffers that were copied in time are subtracted from that
 *      number. A sub-buffer that was current, so that it was copied in part, and that has been
 *      overwritten since, is torn.
 */
#ifndef IP_FLIGHT_RECORDER_H
#define IP_FLIGHT_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "trace_writer/writer.h"

struct ip_collector;
struct ip_flight_recorder;

/* What a snapshot has written. */
struct ip_flight_recorder_counts {
	uint64_t events, lost, invalid, overwritten, torn;
};

/* Only for a session whose area has IP_MODE_OVERWRITE. */
int ip_flight_recorder_begin(struct ip_collector *c);
void ip_flight_recorder_destroy(struct ip_flight_recorder *w);

/* Takes what the thread of a slot has left. The thread must not write any more. at: the time (TSC)
 * of the losses after its last event, or a later time. */
int ip_flight_recorder_end_slot(struct ip_collector *c, uint32_t index, uint64_t at);
/* To be called after ip_flight_recorder_end_slot(): notes that the thread ended between the times
 * alive and gone. */
int ip_flight_recorder_tell_end(struct ip_collector *c, uint32_t index, uint64_t alive,
				uint64_t gone);
/* The claim ends: adds the number of its overwritten events to the totals. */
void ip_flight_recorder_release(struct ip_collector *c, uint32_t index);

/* To be called at intervals: shares the memory out among the threads. A thread that needs less than
 * its equal share leaves the rest to the others. */
void ip_flight_recorder_share(struct ip_collector *c);

/* Limits the memory for the events of ended threads. */
void ip_flight_recorder_trim(struct ip_collector *c);

/* Writes the current contents into trace. The threads go on. since: what is known to have ended
 * before this time of the session's clock is left out, by whole packets; it counts neither as lost
 * nor as overwritten. 0: nothing is. */
int ip_flight_recorder_snapshot(struct ip_collector *c, struct ip_trace *trace, uint64_t since,
				struct ip_flight_recorder_counts *ret);
/* To be called at the end, when all claims are released: writes what was kept into the session's
 * own trace. */
int ip_flight_recorder_finish(struct ip_collector *c);

/* Return the number of events overwritten so far, and the number kept now, for all threads
 * together. */
uint64_t ip_flight_recorder_overwritten(const struct ip_collector *c);
uint64_t ip_flight_recorder_kept(const struct ip_collector *c);

#endif
