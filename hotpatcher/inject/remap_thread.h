/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has one blocked thread of a target change the target's mappings of text (runtime/remap.c): checks
 * which targets can do that, borrows one thread at a time, and clears up what an iprobe that died
 * has left. The thread is borrowed and comes back by the steps of runtime_wake.h.
 */
#ifndef IP_REMAP_THREAD_H
#define IP_REMAP_THREAD_H

#include <stdint.h>

#include "common/abi/borrow.h"
#include "hotpatcher/inject/borrow_search.h"

struct ip_remap_hold {
	uint64_t ns;	      /* how long the thread was held; 0: no thread was held */
	uint64_t tsc;	      /* TSC when the hold began */
	pid_t tid;	      /* id of the held thread */
	uint64_t changing_ns; /* the part of ns in which mappings were changed */
	/* the part of changing_ns in which the live sites of pieces that were being copied were
	 * idle, one piece after the other */
	uint64_t bare_ns;
};

#define IP_REMAP_FIND_NS 2000000000ull /* how long to search for a thread if there is time */

/* Whether the target has a runtime that can change mappings, and may be asked to. 0, or -1 with the
 * reason. */
int ip_remap_thread_check(const struct ip_target *target);

/* Borrows a thread, as which says (borrow_search.h), and has it do what the n pieces say, at most
 * IP_REMAP_PIECES; then reads back the state of the pieces. The caller must hold the lock
 * (ip_borrow_lock()). find_ns: how long to search for a thread. 0: a thread went through all of
 * the work; its result, good or bad, stands in the pieces. Where none of the pieces is text (text
 * has `at` set), what an iprobe that has died left is put in order first, since the block would
 * forget it (a look of the target); for text the caller has done so (ip_remap_thread_clean()). -1
 * with the reason: no thread could be borrowed, or the thread was kept from finishing (the pieces
 * say how far it came). */
int ip_remap_thread_run(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
			uint64_t find_ns, struct ip_remap_piece *pieces, size_t n,
			struct ip_remap_hold *ret);

/* Looks for mappings that an iprobe which died has left. Has them unmapped, or put in the place of
 * the text where nothing is mapped there. The caller must hold the lock. 0; ret->ns is 0 if there
 * was nothing to do. -1 with the reason: the block still tells of them. */
int ip_remap_thread_clean(struct ip_target *target, uint64_t find_ns, struct ip_remap_hold *ret);

#endif
