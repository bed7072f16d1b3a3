/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collector takes full sub-buffers out of the area while the target runs, checks every word,
 * and writes them as CTF packets. It never wakes or stops the target, and it treats everything that
 * it reads as hostile.
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
	uint64_t unserved;    /* those of lost whose thread got no slot */
	uint64_t unfinished;  /* those of lost whose hook never came back, or not in time */
	uint64_t filtered;    /* left out on purpose (filters.h) */
	uint64_t overwritten; /* in sessions that overwrite */
	uint64_t invalid;     /* words that were no record: the target wrote into its rings */
	uint64_t processes;   /* that have recorded events */
	uint64_t threads;     /* that have recorded events */
	/* packets of a compressed trace that are not compressed, since the compressor was too
	 * slow */
	uint64_t plain;
	uint64_t pending; /* recorded but not drained yet: an estimate, to be shown */
};

/* area, trace and target are borrowed and must outlive the collector. The area's session must have
 * begun. max_size: bytes of packets after which the collector writes no more. It counts the events
 * that come after that as lost. */
int ip_collector_create(struct ip_area *area, struct ip_trace *trace, struct ip_target *target,
			uint64_t max_size, struct ip_collector **ret);
/* The trace has been opened again, and the area's session goes on. To be called before anything is
 * drained. */
void ip_collector_resume(struct ip_collector *c);
void ip_collector_destroy(struct ip_collector *c);

/* Sets the function that tells whether a thread of another process that uses the area (a forked
 * child) has ended. Both ids are as that process sees them itself. Without this function the
 * collector knows only the target's threads. */
void ip_collector_set_followed(struct ip_collector *c,
			       bool (*gone)(void *data, pid_t pid, pid_t tid), void *data);

/* Calls visit for each process that has recorded, by its number as it sees itself. */
void ip_collector_each_recorded(const struct ip_collector *c,
				void (*visit)(void *data, uint32_t pid), void *data);

/* counters takes over what the block of an ended thread holds. Borrowed. NULL: no meters. */
void ip_collector_set_counters(struct ip_collector *c, struct ip_counters *counters);
/* Sets the nice value of the thread that compresses. The default is 0. */
void ip_collector_set_nice(struct ip_collector *c, int nice);
/* hot looks at the packets for hot functions (hot_functions.h). Borrowed. NULL: the collector does
 * not look. */
struct ip_hot;
void ip_collector_set_hot(struct ip_collector *c, struct ip_hot *hot);
/* The session overwrites (flight_recorder.h). To be called before the gate opens. */
int ip_collector_overwrite(struct ip_collector *c);
/* Writes what the rings hold now into another trace. since: ip_flight_recorder_snapshot(). */
int ip_collector_snapshot(struct ip_collector *c, struct ip_trace *trace, uint64_t since,
			  struct ip_flight_recorder_counts *ret);
/* To be called after the last flush. In a session that overwrites it writes what has been kept. */
int ip_collector_finish(struct ip_collector *c);

/* Drains the full sub-buffers and, at intervals, looks for threads that have ended. Returns the
 * number of packets written, or -1 if the trace cannot be written. Recording should end then. */
int ip_collector_poll(struct ip_collector *c);

/* Returns how long the collector may sleep after ip_collector_poll() has returned taken
 * (poll_interval.h). records: some probe may write into the rings. */
uint64_t ip_collector_nap(const struct ip_collector *c, struct ip_poll_interval *interval,
			  int taken, bool records, uint64_t now_ns, uint64_t max_ns);

/* The process has called exec: none of its threads that the area knows goes on. Drains all of them
 * and frees their slots. */
int ip_collector_flush(struct ip_collector *c);

/* Does what ip_collector_flush() does, at the end of the recording: threads may live on. */
int ip_collector_end(struct ip_collector *c);

/* The target has become another program: the collector goes on with another area, whose session has
 * begun. Takes all that is left in the old area, to which no thread writes any more. Returns -1 if
 * the trace cannot be written or memory ran out. */
int ip_collector_move(struct ip_collector *c, struct ip_area *area);

/* Does what ip_collector_flush() does, for one process that has called exec. pid is the process's
 * id as it sees it itself. */
int ip_collector_flush_process(struct ip_collector *c, pid_t pid);

/* Calls visit for each claimed slot, with its process's id as that process sees it itself. */
void ip_collector_each_process(const struct ip_collector *c, void (*visit)(void *data, pid_t pid),
			       void *data);

/* Returns whether the collector writes no more, because max_size has been reached or the disk is
 * full. */
bool ip_collector_full(const struct ip_collector *c);

/* Returns whether the collector writes no more because the disk is full. Events after that are
 * counted as lost. */
bool ip_collector_no_space(const struct ip_collector *c);

/* Returns whether a hook of some thread is in flight. */
bool ip_collector_in_flight(const struct ip_collector *c);

void ip_collector_stats(const struct ip_collector *c, struct ip_collector_stats *ret);

/* Sets the priority of the calling thread, which drains the rings while recording is true. A target
 * that keeps every CPU busy would keep the collector for seconds from draining, and from ending in
 * time. The lowest real-time priority is enough. Ordinary users may not have it. */
void ip_collector_priority(bool recording);

#endif
