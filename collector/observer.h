/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells an observer of each record as soon as its hook has written it, not only when its sub-buffer
 * is full. In the words of common/abi/ring.h, at each poll and for each claimed slot s:
 *
 *   1. Read the clock: T, for all slots together.
 *   2. Read s.cur, then s.guard, then s.cur again. If the guard was seen 0, every word below the
 *      position is filled or will never be. If s.cur is also the same as before, no hook has come
 *      and gone between the two, and every later record of s has a time after T, less what a store
 *      takes to be seen by another CPU (MARGIN). Else a hook is in flight, or was: words of it may
 *      still be filled.
 *   3. If the current sub-buffer is the next one that s has to deliver, copy the words from where
 *      the last look has ended up to the position, and check them (record_check.h). Where a hook is
 *      in flight, stop before the first record that is not filled. If it is not the next one,
 *      leave it: the drain has yet to take those before it.
 *   4. A sub-buffer that the drain takes is told of from where the last look has ended to its end,
 *      before it is freed.
 *
 * Only the collector frees sub-buffers, and it does so in the thread that looks. So what is copied
 * belongs to the claim, and each record is told of once. Sessions that overwrite have no observer:
 * there the threads themselves free sub-buffers.
 */
#ifndef IP_OBSERVER_H
#define IP_OBSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ip_collector;

struct ip_observer_record {
	uint64_t time, sp;
	uint32_t number;
	uint8_t kind; /* enum ip_probe_kind */
};

/* A claim, by which a thread is known. */
struct ip_observer_claim {
	uint32_t slot;
	uint32_t pid, tid;
	uint64_t claimed;
};

/* A thread of which not all is read that was reserved in its ring by now. */
struct ip_observer_behind {
	struct ip_observer_claim claim;
	uint64_t newest; /* time of the newest record that was read of it; 0: none was */
	uint64_t words;	 /* that wait */
	bool full;	 /* the drain has yet to take sub-buffers of it; else a hook is in flight */
};

struct ip_collector_observer {
	void *data;
	/* Records of one thread, in their order; n is at most IP_SUBBUF_WORDS. */
	void (*records)(void *data, const struct ip_observer_claim *claim,
			const struct ip_observer_record *records, size_t n);
	/* The thread has ended, and all its records were told. */
	void (*ended)(void *data, const struct ip_observer_claim *claim, uint64_t time);
	/* A look at all slots is done. now: time at its begin. Every event before it was told, but
	 * for those of the threads that are behind. */
	void (*looked)(void *data, uint64_t now, const struct ip_observer_behind *behind, size_t n);
};

/* observer is borrowed, and is called by the thread that polls. To be called before the gate opens;
 * NULL: nobody is told any more. Returns 0, or -1 with an error. */
int ip_collector_observe(struct ip_collector *c, const struct ip_collector_observer *observer);

#endif
