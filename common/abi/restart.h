/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a system call that a stop broke off needs in order to go on in code of the runtime.
 * Fixed-width types, no pointers, no libc: both sides include it.
 */
#ifndef IP_ABI_RESTART_H
#define IP_ABI_RESTART_H

#include "common/abi/restart_slots.h"

#include <stddef.h>
#include <stdint.h>

/* A system call that a stop broke off goes on in code of the runtime with what is left of its
 * time limit or of its transfer, and then returns to its caller with every register but its
 * result as it was (hotpatcher/ptrace/syscall_restart.h). It lies in a slot of the runtime
 * meanwhile (hotpatcher/ptrace/restart_slot.h). Written from outside; read by
 * arch/x86_64/again.S. */
struct ip_restart {
	uint64_t pc;	/* where the caller goes on */
	uint64_t flags; /* the caller's */
	/* registers of the caller that hold arguments of a system call, in their order */
	uint64_t arguments[6];
	uint64_t deadline; /* CLOCK_MONOTONIC, nanoseconds; ~0: none */
	uint64_t time[2];  /* what is left: a struct timespec or timeval */
	uint64_t number;   /* of the call */
	/* The long form only: ppoll() for what is left, then the call for what is ready, until all
	 * is transferred. */
	uint64_t rest[7];    /* number and arguments of the call to make */
	uint64_t part;	     /* bytes that were transferred already */
	uint64_t all;	     /* 1: all must be transferred; rest[2] is advanced, rest[3] reduced */
	int64_t limit_error; /* what it returns when its time is over */
	/* how often it may be ready for nothing; then it is started anew as a whole */
	uint64_t tries;
	int32_t poll_fd; /* a struct pollfd; without events: does not poll */
	int16_t poll_events, poll_revents;
};

/* Where that lies on x86-64: in the runtime's own memory. A slot is free where owner is 0; the
 * thread gives it back itself, last of all. Handed out from outside, while every thread stands
 * (hotpatcher/ptrace/restart_slot.h). */
struct ip_restart_slot {
	struct ip_restart again;
	uint64_t calls;	 /* of this slot: where they lie */
	uint64_t owner;	 /* the thread's id in its own namespace */
	uint64_t sp;	 /* its stack pointer */
	uint64_t result; /* the code's own */
	uint64_t reserved[4];
};

_Static_assert(sizeof(struct ip_restart_slot) == IP_RESTART_SLOT &&
		       offsetof(struct ip_restart_slot, calls) == 192 &&
		       offsetof(struct ip_restart_slot, owner) == 200 &&
		       offsetof(struct ip_restart_slot, result) == 216,
	       "arch/x86_64/again.S");
_Static_assert(sizeof(struct ip_restart) == 192 && offsetof(struct ip_restart, arguments) == 16 &&
		       offsetof(struct ip_restart, time) == 72 &&
		       offsetof(struct ip_restart, rest) == 96 &&
		       offsetof(struct ip_restart, poll_fd) == 184,
	       "arch/ARCH/again.S");

#endif
