/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Having one blocked thread of a target change its mappings of text (runtime/remap.c): who may, one
 * at a time, and what somebody left. The steps by which a thread is borrowed and comes back are
 * those of runtime_wake.h.
 */
#ifndef IP_REMAP_THREAD_H
#define IP_REMAP_THREAD_H

#include <stdint.h>

#include "common/abi/borrow.h"
#include "hotpatcher/inject/borrow_search.h"

struct ip_remap_hold {
	uint64_t ns;	      /* how long the thread was held; 0: none was */
	uint64_t tsc;	      /* when it began */
	pid_t tid;	      /* whose */
	uint64_t changing_ns; /* so long of it mappings were changed */
	/* so long of that live sites of pieces that were being copied were idle, one piece after
	 * the other */
	uint64_t bare_ns;
};

#define IP_REMAP_FIND_NS 2000000000ull /* so long a thread is looked for where there is time */

/* Whether the target has a runtime that can do it, by what the anchor says. 0, or -1 with the
 * reason. */
int ip_remap_thread_check(const struct ip_target *target);

/* Has a thread, one of which (borrow_search.h), do what the pieces say, at most IP_REMAP_PIECES
 * of them, and reads back what became of them. The lock (ip_borrow_lock) must be held. One is
 * looked for for find_ns. 0 where a thread was through with it, whatever came of the pieces; -1
 * with the reason where none could be had, or it was held up in the middle (the pieces say how
 * far it came). */
int ip_remap_thread_run(struct ip_target *target, enum ip_borrow_which (*which)(uint64_t ns),
			uint64_t find_ns, struct ip_remap_piece *pieces, size_t n,
			struct ip_remap_hold *ret);

/* Looks what an iprobe that died has left, and has it unmapped, or put in its place where that
 * is empty. The lock must be held. 0; ret->ns is 0 where there was nothing. */
int ip_remap_thread_clean(struct ip_target *target, uint64_t find_ns, struct ip_remap_hold *ret);

#endif
