/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ABI: what a system call that a stop interrupted needs to continue in code of the runtime. Types
 * have fixed widths; there are no pointers and no libc, since both sides include this file.
 */
#ifndef IP_ABI_RESTART_H
#define IP_ABI_RESTART_H

#include "common/abi/restart_slots.h"

#include <stddef.h>
#include <stdint.h>

/* A system call that a stop interrupted continues in code of the runtime, with what is left of its
 * time limit or of its transfer. Then it returns to its caller; every register except the result is
 * as it was (hotpatcher/ptrace/syscall_restart.h). Meanwhile this structure lies in a slot of the
 * runtime (hotpatcher/ptrace/restart_slot.h). The tracer writes it from outside;
 * arch/x86_64/syscall_resume.S reads it. */
struct ip_restart {
	uint64_t pc;	/* where the caller continues */
	uint64_t flags; /* the caller's */
	/* the caller's registers that hold arguments of a system call, in their order */
	uint64_t arguments[6];
	uint64_t deadline; /* CLOCK_MONOTONIC, nanoseconds; ~0: no deadline */
	uint64_t time[2];  /* time that is left: a struct timespec or timeval */
	uint64_t number;   /* number of the system call */
	/* The members below are for the long form only: ppoll() for the time that is left, then the
	 * call that transfers what is ready, until all is transferred. */
	uint64_t rest[7]; /* number and arguments of the call to make */
	uint64_t part;	  /* bytes that are already transferred */
	/* 1: everything must be transferred; then rest[2] is advanced and rest[3] reduced */
	uint64_t all;
	int64_t limit_error; /* result when the time is over */
	/* how often ppoll() may report ready when nothing is; then the whole call starts again */
	uint64_t tries;
	int32_t poll_fd; /* a struct pollfd; without events the code does not poll */
	int16_t poll_events, poll_revents;
};

/* The slot on x86-64. It lies in the runtime's own memory. A slot is free while owner is 0. The
 * thread gives its slot back itself, as its last step. The tracer hands slots out from outside,
 * while every thread is stopped (hotpatcher/ptrace/restart_slot.h). */
struct ip_restart_slot {
	struct ip_restart restart;
	uint64_t calls;	 /* address of this slot's calls */
	uint64_t owner;	 /* the thread's id in its own namespace */
	uint64_t sp;	 /* the thread's stack pointer */
	uint64_t result; /* used by the code itself */
	uint64_t reserved[4];
};

_Static_assert(sizeof(struct ip_restart_slot) == IP_RESTART_SLOT &&
		       offsetof(struct ip_restart_slot, calls) == 192 &&
		       offsetof(struct ip_restart_slot, owner) == 200 &&
		       offsetof(struct ip_restart_slot, result) == 216,
	       "arch/x86_64/syscall_resume.S");
_Static_assert(sizeof(struct ip_restart) == 192 && offsetof(struct ip_restart, arguments) == 16 &&
		       offsetof(struct ip_restart, time) == 72 &&
		       offsetof(struct ip_restart, rest) == 96 &&
		       offsetof(struct ip_restart, poll_fd) == 184,
	       "arch/ARCH/syscall_resume.S");

#endif
