/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a thread to borrow: one iprobe at a time, not while a thread is left in the code, and
 * again and again where there is none just now.
 */
#ifndef IP_BORROW_SEARCH_H
#define IP_BORROW_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/inject/borrow.h"

/* Code in the target that borrowed threads run, and the block at the top of the stack that they
 * have meanwhile. */
struct ip_borrow_place {
	uint64_t code, end;
	uint64_t block, size, stack; /* bytes of the block, and of the stack below it */
	uint64_t tid_at;	     /* where in memory the thread is named that was there last */
};

/* Whether it lies in code and in memory that can be written: what the anchor says may have been
 * scribbled over. */
bool ip_borrow_is_sound(const struct ip_target *target, const struct ip_borrow_place *place);

/* A thread that an iprobe which died has left there is so for a moment only. 1: still; 0: none; -1:
 * an error. */
int ip_borrow_is_occupied(struct ip_target *target, const struct ip_borrow_place *place);

/* The lock that one iprobe at a time holds who borrows threads of the process: a descriptor to
 * close, or -1 with the reason. */
int ip_borrow_lock(pid_t pid);

/* Whom to take after so long a search, the less welcome ones late. */
enum ip_borrow_which ip_borrow_anyone(uint64_t ns);
enum ip_borrow_which ip_borrow_waiting(uint64_t ns);

struct ip_borrow_search {
	struct ip_borrow_place place;
	enum ip_borrow_which (*which)(uint64_t ns);
	/* asked before each look: 1; 0: no more; -1. NULL: it is */
	int (*needed)(struct ip_target *target);
	uint64_t limit_ns;
	struct ip_confined *confined; /* as ip_borrow_begin() has it */
};

/* 1: a thread, stopped (ip_borrow_begin); 0: none could be had in time; 2: none is needed any more;
 * -1 with the reason. */
int ip_borrow_search(struct ip_target *target, const struct ip_borrow_search *search,
		     struct ip_borrowed *ret);

#endif
