/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds a thread to borrow. Only one iprobe does so at a time, and only while no borrowed thread is
 * left in the code. Where no thread may be borrowed at the moment, the search looks again and
 * again.
 */
#ifndef IP_BORROW_SEARCH_H
#define IP_BORROW_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/inject/borrow.h"

/* Code in the target that a borrowed thread runs, and the block at the top of the stack that the
 * thread has while it does. */
struct ip_borrow_place {
	uint64_t code, end;
	uint64_t block, size, stack; /* bytes of the block, and of the stack below it */
	uint64_t tid_at;	     /* address of the id of the thread that was borrowed last */
};

/* Whether the code lies in executable memory and the block in writable memory. This is checked
 * because the process may have written over the anchor that names both. */
bool ip_borrow_is_sound(const struct ip_target *target, const struct ip_borrow_place *place);

/* Whether a borrowed thread is still in the code or on its stack. An iprobe that died may have left
 * it there; the thread stays for a moment only. 1: it is there; 0: no thread is there; -1: an
 * error. */
int ip_borrow_is_occupied(struct ip_target *target, const struct ip_borrow_place *place);

/* Takes the lock of the process that an iprobe holds while it borrows threads; one iprobe at a time
 * can have it. Returns a descriptor that the caller closes to unlock, or -1 with the reason. */
int ip_borrow_lock(pid_t pid);
/* The same without waiting for another iprobe. */
int ip_borrow_try_lock(pid_t pid);

/* Which threads to take after a search of ns nanoseconds. Threads whose calls a stop disturbs are
 * taken last. ip_borrow_anyone(): at last threads in any call. ip_borrow_waiting(): waiting threads
 * only, at last also those whose time limit begins anew. */
enum ip_borrow_which ip_borrow_anyone(uint64_t ns);
enum ip_borrow_which ip_borrow_waiting(uint64_t ns);

struct ip_borrow_search {
	struct ip_borrow_place place;
	enum ip_borrow_which (*which)(uint64_t ns);
	/* asked before each look whether a thread is still needed: 1; 0: no; -1: an error, which
	 * ends the search. NULL: it is needed. */
	int (*needed)(struct ip_target *target);
	uint64_t limit_ns;
	struct ip_confined *confined; /* as for ip_borrow_begin() */
};

/* 1: *ret has a thread, stopped (ip_borrow_begin()); 0: no thread could be borrowed within
 * limit_ns; 2: no thread is needed any more; -1 with the reason. */
int ip_borrow_search(struct ip_target *target, const struct ip_borrow_search *search,
		     struct ip_borrowed *ret);

#endif
