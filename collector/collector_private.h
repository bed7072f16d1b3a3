/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the collector's files share: checking words (record_check.c), draining sub-buffers
 * (drain.c), and ending the claims of threads that have ended (reap.c). A claim is one thread's use
 * of a slot.
 */
#ifndef IP_COLLECTOR_PRIVATE_H
#define IP_COLLECTOR_PRIVATE_H

#include "collector/collector.h"
#include "collector/compressor.h"
#include "collector/flight_recorder.h"
#include "collector/record_check.h"

struct ip_claim {
	struct ip_progress p; /* how far the trace has got */
	bool in_use;
	/* number of thread listings in a row that did not contain the thread */
	uint8_t missing;
	/* the guard that keeps a sub-buffer from being taken, and since when it has this value */
	uint64_t guard, guard_since;
	/* in sessions that overwrite: slot->tail when the memory was last shared out */
	uint64_t tail;
	uint64_t looked; /* the claim that seen and seen_before belong to */
	/* TSC times at which the thread was seen alive: by the last look that saw it, and by the
	 * look before that. 0: by no look */
	uint64_t seen, seen_before;
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
	uint64_t *copy;	   /* words of one sub-buffer */
	uint64_t *records; /* the records found in copy */
	uint64_t events, invalid;
	uint64_t unserved_before;  /* in areas that are no longer in use */
	uint64_t lost_done;	   /* lost by claims that have ended */
	uint64_t unfinished_done;  /* those of them whose hook never came back */
	uint64_t filtered_done;	   /* left out in claims that have ended */
	uint64_t max_size, beyond; /* beyond: events that did not fit into max_size */
	/* nothing is written any more: max_size has been reached, or the disk is full */
	bool full, no_space;
	uint64_t reaped_ns;
	/* per sub-buffer: the time since which it is out of circulation. 0: it is in circulation */
	uint64_t *suspended;
	const uint8_t *gone; /* per slot, only while reaping (else NULL): its thread has ended */
	bool (*followed_gone)(void *data, pid_t pid, pid_t tid);
	void *followed;
	/* iprobe sees the ids of processes as the target does. false also while this is not
	 * known */
	bool same_namespace;
	struct ip_counters *counters;
	struct ip_hot *hot;		  /* NULL: no search for hot functions */
	struct ip_observer_looks *looks;  /* observer.h; NULL: there is no observer */
	struct ip_process_set *processes; /* that have recorded */
	uint64_t threads;
	/* only of compressed traces, once there is a packet to be written; else NULL */
	struct ip_compressor *compressor;
	int nice; /* of the compressor's thread */
	/* bytes of the packets in the compressor, counted as if uncompressed */
	uint64_t on_its_way;
	struct ip_flight_recorder *recorder; /* only of sessions that overwrite; else NULL */
};

static inline uint32_t slots_used(const struct ip_collector *c)
{
	uint32_t used = __atomic_load_n(&c->area->header->slots_used, __ATOMIC_ACQUIRE);

	return used < IP_AREA_SLOTS ? used : IP_AREA_SLOTS;
}

static inline bool is_claimed(const struct ip_collector *c, uint32_t slot)
{
	return __atomic_load_n(&c->area->slots[slot].state, __ATOMIC_ACQUIRE) == IP_SLOT_CLAIMED;
}

/* Takes all sub-buffers that may be taken. quiet: no thread writes any more. Returns how many were
 * taken, or -1 if the trace cannot be written. */
int ip_drain_full(struct ip_collector *c, bool quiet);

/* To be called after ip_drain_full(), for the slot of a thread that writes no more. Takes what the
 * thread has left in its current sub-buffer. If losses came after its last packet, an empty packet
 * reports them. alive: the thread has ended, and it was alive at that time (TSC), or at its last
 * event if that is later. Another empty packet reports this. */
#define IP_LIVES UINT64_MAX /* value of alive: as far as iprobe knows, the thread has not ended */
int ip_drain_slot(struct ip_collector *c, uint32_t index, uint64_t alive);

/* Returns the current time of the clock that stamps are taken from. No later event has a stamp
 * before it. */
uint64_t ip_drain_now(const struct ip_collector *c);

/* Ends the claim: adds up what it lost, and frees the slot for a new claim. */
void ip_drain_release(struct ip_collector *c, uint32_t index);

/* Goes on where the collector of an iprobe that died had stopped (journal.h). Sub-buffers that it
 * had written are freed and not written again. */
void ip_drain_resume(struct ip_collector *c);

/* Zeroes a sub-buffer and puts it back into the pool. A suspect sub-buffer is put back later. */
void ip_drain_give_back(struct ip_collector *c, uint32_t subbuf);

/* Sets up the claim of the slot if the collector has not seen it yet. */
void ip_drain_meet(struct ip_collector *c, uint32_t index);

/* Step 1 (drain.c) for a sub-buffer that its thread has not handed over. quiet: no thread writes
 * any more. */
bool ip_drain_has_been_left(const struct ip_collector *c, const struct ip_ready *r, bool quiet);

/* Returns whether the sub-buffer was never in use: a hook took it, and was left by longjmp before
 * the slot moved to it. Then another sub-buffer has the same ordinal. (A sub-buffer that was in use
 * contains records or padding.) Only to be called for a sub-buffer that its thread has left. */
bool ip_drain_never_used(const struct ip_collector *c, const struct ip_ready *r);
/* Returns whether the sub-buffer is still OWNED by the same slot with the same ordinal as when it
 * was listed. */
bool ip_drain_still_is(const struct ip_collector *c, const struct ip_ready *r);
/* The slot has come as far as next: updates the collector's totals. */
void ip_drain_advance(struct ip_collector *c, uint32_t slot, const struct ip_progress *next);

/* Writes the found records, which are in c->records. Adds them to next, which does not contain them
 * yet, and advances the slot to next. Returns 0; 1 if the sub-buffer (IP_NO_SLOT: none) is to be
 * freed later, when the packet is written; or -1 with an error. */
int ip_drain_put(struct ip_collector *c, uint32_t slot, uint32_t subbuf, struct ip_progress *next,
		 const struct ip_checked_records *found, uint64_t discarded);

/* The slot has come as far as next without a packet. */
int ip_drain_note(struct ip_collector *c, uint32_t slot, struct ip_progress *next);

/* ip_drain_write_ready() writes the packets that the compressor has ready. ip_drain_settle() writes
 * all packets that are in the compressor. Both return 0, or -1 with an error. */
int ip_drain_write_ready(struct ip_collector *c);
int ip_drain_settle(struct ip_collector *c);

/* Returns whether the errno says that the disk or a quota is full, or that the file has its largest
 * size. */
bool ip_drain_is_out_of_space(int error);

/* For qsort(): by slot, then by ordinal. */
int ip_drain_by_order(const void *a, const void *b);

/* Puts sub-buffers back into circulation that were suspended long enough. */
void ip_drain_end_suspensions(struct ip_collector *c, uint64_t now);

/* Finds threads that have ended, takes what they left and frees their slots. */
int ip_reap(struct ip_collector *c);

/* Finds out which claims belong to threads that have ended by now. ret is indexed by slot. */
void ip_reap_look(const struct ip_collector *c, uint8_t *ret);

#endif
