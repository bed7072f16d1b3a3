/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of the threads of a target at the stop in which recording begins, from which their stacks
 * are walked later (hotpatcher/process/stack_unwind.h).
 *
 *   1. Before the stop: room for the copies is made and touched, so that no page of iprobe is
 *      faulted in while the target stands.
 *   2. In the stop, when all sites are written: the registers of each thread, which the stop has
 *      read before it changed any, are noted, and at most 64 KiB of its stack are read, from
 *      the stack pointer on. Threads that ran come first. This ends when the room is full, or when
 *      it has taken IP_STACK_COPIES_NS and an eighth of the stop so far: then the other threads
 *      have no copy. Nothing is walked, and nothing is written.
 *   3. After the stop: the copies are valid until they are destroyed.
 */
#ifndef IP_STACK_COPIES_H
#define IP_STACK_COPIES_H

#include "hotpatcher/process/stack_copy.h"
#include "hotpatcher/process/target.h"

#define IP_STACK_COPIES_NS 250000ull

struct ip_stop;

struct ip_stack_copies {
	struct ip_stack_copy *items;
	size_t n, capacity;
	uint8_t *bytes;
	size_t used, room;
	uint64_t tsc;  /* when they were taken; 0: not yet */
	uint64_t ns;   /* how long that took */
	size_t missed; /* threads that stood, of which there is no copy */
};

/* Step 1. The caller destroys *ret. 0, or -1: out of memory. */
int ip_stack_copies_create(const struct ip_target *target, struct ip_stack_copies **ret);
void ip_stack_copies_destroy(struct ip_stack_copies *copies);

/* Step 2. To be called in a stop that has succeeded; only the first call does anything. */
void ip_stack_copies_take(struct ip_stack_copies *copies, const struct ip_stop *stop);

#endif
