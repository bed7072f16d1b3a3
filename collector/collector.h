/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector: takes full sub-buffers out of the area while the target runs, checks every word,
 * and writes them as CTF packets. It never wakes or stops the target and treats all it reads as
 * hostile.
 */
#ifndef IP_COLLECTOR_H
#define IP_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "collector/flight_recorder.h"
#include "collector/meters.h"
#include "collector/poll_interval.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"
#include "trace_writer/writer.h"

struct ip_collector;

struct ip_collector_stats {
	uint64_t events;      /* written to the trace */
	uint64_t lost;	      /* dropped: no room, no slot, or a hook that never came back */
	uint64_t unserved;    /* of those: threads beyond the slots */
	uint64_t filtered;    /* left out on purpose (filters.h) */
	uint64_t overwritten; /* of sessions that overwrite */
	uint64_t invalid;     /* words that were no record: the target scribbled over its rings */
	uint64_t processes;   /* that recorded anything */
	uint64_t threads;     /* the same */
	uint64_t plain;	  /* packets of a compressed trace that are not: the press fell behind */
	uint64_t pending; /* recorded but not drained yet (an estimate, for people) */
};

/* area, trace and target are borrowed and must outlive it. The area's session has begun.
 * max_size: bytes of packets after which nothing is written any more; what comes then is counted
 * as lost. */
int ip_collector_create(struct ip_area *area, struct ip_trace *trace, struct ip_target *target,
			uint64_t max_size, struct ip_collector **ret);
/* The trace was opened again, and the area's session goes on: to be called before anything is
 * drained. */
void ip_collector_resume(struct ip_collector *c);
void ip_collector_destroy(struct ip_collector *c);

/* Tells the threads of other processes that use the area (forked children) from ended ones:
 * gone(data, pid, tid), both as the process names them. Without it only the target's are known. */
void ip_collector_set_followed(struct ip_collector *c,
			       bool (*gone)(void *data, pid_t pid, pid_t tid), void *data);

/* Who takes over what the block of an ended thread holds; borrowed. NULL: nobody. */
void ip_collector_set_counters(struct ip_collector *c, struct ip_counters *counters);
/* The nice value of the thread that compresses; 0 if left out. */
void ip_collector_set_nice(struct ip_collector *c, int nice);
/* Who looks at packets for what is hot (hot_functions.h); borrowed. NULL: nobody. */
struct ip_hot;
void ip_collector_set_hot(struct ip_collector *c, struct ip_hot *hot);
/* The session overwrites (flight_recorder.h). Before the gate opens. */
int ip_collector_overwrite(struct ip_collector *c);
/* Writes what the rings hold now into another trace. */
int ip_collector_snapshot(struct ip_collector *c, struct ip_trace *trace,
			  struct ip_flight_recorder_counts *ret);
/* After the last flush: a session that overwrites writes what it has. */
int ip_collector_finish(struct ip_collector *c);

/* Drains what is full; now and then looks for threads that have ended. The number of packets
 * written, or -1 where the trace cannot be written (recording should end). */
int ip_collector_poll(struct ip_collector *c);

/* How long it may sleep after a turn of which ip_collector_poll() said taken (poll_interval.h).
 * records: something may fill rings. */
uint64_t ip_collector_nap(const struct ip_collector *c, struct ip_poll_interval *interval,
			  int taken, bool records, uint64_t now_ns, uint64_t max_ns);

/* No thread that the area knows goes on as it was (the process has exec'ed): drains all of them and
 * frees their slots. */
int ip_collector_flush(struct ip_collector *c);

/* The same at the end of the recording: threads may live on. */
int ip_collector_end(struct ip_collector *c);

/* Goes on with another area, whose session has begun: the target has become another program.
 * Takes all that is left in the old one, which nobody writes to any more. -1 where the trace
 * cannot be written, or memory ran out. */
int ip_collector_move(struct ip_collector *c, struct ip_area *area);

/* The same for one process, as it names itself: it has exec'ed. */
int ip_collector_flush_process(struct ip_collector *c, pid_t pid);

/* Calls visit for each process (as it names itself) that holds a slot. */
void ip_collector_each_process(const struct ip_collector *c, void (*visit)(void *data, pid_t pid),
			       void *data);

/* Whether nothing is written any more: max_size has been reached, or the disk is full. */
bool ip_collector_full(const struct ip_collector *c);

/* The same, and that it was because the disk is full: what came then is counted as lost. */
bool ip_collector_no_space(const struct ip_collector *c);

/* Whether some thread has a hook in flight. */
bool ip_collector_in_flight(const struct ip_collector *c);

void ip_collector_stats(const struct ip_collector *c, struct ip_collector_stats *ret);

/* Of the calling thread, while we record: a target that keeps every CPU busy would keep us from
 * draining its rings for seconds, and from ending in time. The lowest real-time priority is
 * enough; ordinary users may not have it. */
void ip_collector_priority(bool recording);

#endif
