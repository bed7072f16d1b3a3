/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the collector's files share: sifting words (record_check.c), draining sub-buffers (drain.c),
 * ending claims of threads that are gone (reap.c).
 */
#ifndef IP_COLLECTOR_PRIVATE_H
#define IP_COLLECTOR_PRIVATE_H

#include "collector/collector.h"
#include "collector/compressor.h"
#include "collector/flight_recorder.h"
#include "collector/record_check.h"

struct ip_claim {
	struct ip_progress p; /* as the trace has it */
	bool in_use;
	uint8_t missing; /* listings in a row that did not have the thread */
	/* the guard that keeps a sub-buffer from being taken, and since when */
	uint64_t guard, guard_since;
	uint64_t tail;	 /* of sessions that overwrite: when the memory was shared out last */
	uint64_t looked; /* the claim that the next two are about */
	uint64_t seen,
		/* TSC: its thread lived then: at the last look that saw it, and at the one before;
		 * 0: none did */
		seen_before;
};

struct ip_ready {
	uint32_t slot, subbuf;
	uint64_t ordinal;
};

struct ip_collector {
	struct ip_area *area;
	struct ip_trace *trace;
	struct ip_target *target;
	struct ip_claim *slots;
	struct ip_ready *ready;
	uint64_t *copy;	   /* one sub-buffer */
	uint64_t *records; /* the records found in it */
	uint64_t events, invalid;
	uint64_t unserved_before;  /* in areas that are gone */
	uint64_t lost_done;	   /* by claims that have ended */
	uint64_t filtered_done;	   /* the same */
	uint64_t max_size, beyond; /* events that did not fit into max_size */
	/* nothing is written any more: max_size has been reached, or the disk is full */
	bool full, no_space;
	uint64_t reaped_ns;
	uint64_t *suspended; /* per sub-buffer: since when it is out of circulation; 0: it is not */
	const uint8_t *gone; /* per slot, while reaping: its thread has ended; else NULL */
	bool (*followed_gone)(void *data, pid_t pid, pid_t tid);
	void *followed;
	/* our ids of processes are the target's own; false: or that is not known yet */
	bool same_namespace;
	struct ip_counters *counters;
	struct ip_hot *hot; /* NULL: nobody asks */
	uint8_t *pids;	    /* bitmap of processes that have recorded */
	uint64_t processes, threads;
	/* of compressed traces, once anything is to be written; NULL */
	struct ip_compressor *compressor;
	int nice;	     /* of the press's thread */
	uint64_t on_its_way; /* bytes of packets that are in the press, as if they were plain */
	struct ip_flight_recorder *window; /* of sessions that overwrite; NULL */
};

#define PID_LIMIT (1u << 22) /* of the kernel */

static inline uint32_t slots_used(const struct ip_collector *c)
{
	uint32_t used = __atomic_load_n(&c->area->header->slots_used, __ATOMIC_ACQUIRE);

	return used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
}

static inline bool is_claimed(const struct ip_collector *c, uint32_t slot)
{
	return __atomic_load_n(&c->area->slots[slot].state, __ATOMIC_ACQUIRE) == IP_SLOT_CLAIMED;
}

/* Takes all sub-buffers that may be taken. quiet: no thread writes any more. How many; -1 where the
 * trace cannot be written. */
int ip_drain_full(struct ip_collector *c, bool quiet);

/* Behind ip_drain_full(): what the thread of a slot that writes no more has left in the
 * sub-buffer in use. If losses came behind its last packet, an empty packet tells them. alive:
 * the thread has ended; it lived then, or at its last event (TSC), which another empty packet
 * tells. */
#define IP_LIVES UINT64_MAX /* it has not, as far as we know */
int ip_drain_slot(struct ip_collector *c, uint32_t index, uint64_t alive);

/* Now, by the clock of stamps: what comes later has none that lies before it. */
uint64_t ip_drain_now(const struct ip_collector *c);

/* Ends the claim: what it lost is kept, the slot can be claimed anew. */
void ip_drain_release(struct ip_collector *c, uint32_t index);

/* Goes on where the collector of a dead iprobe was (journal.h): what it had written is freed, not
 * written again. */
void ip_drain_resume(struct ip_collector *c);

/* Empties a sub-buffer and puts it back into the pool; a suspect one later. */
void ip_drain_give_back(struct ip_collector *c, uint32_t subbuf);

/* Notes a claim that we have not seen yet. */
void ip_drain_meet(struct ip_collector *c, uint32_t index);

/* Step 1 for a sub-buffer that its thread has not handed over. quiet: no thread writes any more. */
bool ip_drain_has_been_left(const struct ip_collector *c, const struct ip_ready *r, bool quiet);

/* A hook named it, and was left by longjmp before it was in use, so another has its ordinal:
 * what was in use has records or padding. Only for one that was left. */
bool ip_drain_never_used(const struct ip_collector *c, const struct ip_ready *r);
/* Whether a sub-buffer is what it was when it was listed, and its thread's. */
bool ip_drain_still_is(const struct ip_collector *c, const struct ip_ready *r);
/* The slot has come that far: what is counted follows. */
void ip_drain_advance(struct ip_collector *c, uint32_t slot, const struct ip_progress *next);

/* Writes what was found, which lies in c->records, and advances to next, which does not know of
 * it yet. 0; 1: the sub-buffer (IP_NO_SLOT: none) is freed when it is written; -1 with an error. */
int ip_drain_put(struct ip_collector *c, uint32_t slot, uint32_t subbuf, struct ip_progress *next,
		 const struct ip_checked_records *found, uint64_t discarded);

/* The slot has come that far without a packet. */
int ip_drain_note(struct ip_collector *c, uint32_t slot, struct ip_progress *next);

/* Writes what the press has ready; all that is on its way. 0, or -1 with an error. */
int ip_drain_write_ready(struct ip_collector *c);
int ip_drain_settle(struct ip_collector *c);

/* Of an errno: the disk is full, or a quota, or the file as large as it may be. */
bool ip_drain_is_out_of_space(int error);

/* For qsort(): by slot, then by ordinal. */
int ip_drain_by_order(const void *a, const void *b);

/* Brings back into circulation what was suspended long enough. */
void ip_drain_end_suspensions(struct ip_collector *c, uint64_t now);

/* Finds threads that have ended, takes what they left and frees their slots. */
int ip_reap(struct ip_collector *c);

/* Which claims are of threads that have ended, by what can be seen now: ret is by slot. */
void ip_reap_look(const struct ip_collector *c, uint8_t *ret);

#endif
