/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls whose time limit began anew since a stop or a look broke them off: how many, and by
 * how much they may last longer than the program asked for.
 *
 * A call that is broken off again while it sleeps is the same call: it is counted once, and its
 * times add up. It is known by its thread having fallen asleep in it as soon as it was let go.
 * Where that cannot be told, it counts as another call.
 */
#ifndef IP_RENEWED_CALLS_H
#define IP_RENEWED_CALLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_RENEWED_SLOTS 64

struct ip_renewed_calls {
	size_t n;
	pid_t tid; /* of the last such call */
	long number;
	/* the last call of a thread, by the thread's id; threads of one slot take it from one
	 * another */
	struct ip_renewed_call {
		pid_t tid;
		long number;
		uint64_t released_ns; /* CLOCK_MONOTONIC; 0: it is held */
		uint64_t late_ns;     /* of the call; UINT64_MAX: unknown */
		uint64_t latest_ns;   /* of all calls of the slot */
	} last[IP_RENEWED_SLOTS];
};

/* Counts a call that a stop or a look has broken off just now. slept_ns: when its thread fell
 * asleep before (CLOCK_MONOTONIC); 0: unknown. late_ns: by how much the call may end later for
 * that, at most; UINT64_MAX: unknown. */
void ip_renewed_calls_add(struct ip_renewed_calls *calls, pid_t tid, long number, uint64_t slept_ns,
			  uint64_t late_ns);

/* A thread has been let go. */
void ip_renewed_calls_release(struct ip_renewed_calls *calls, pid_t tid, uint64_t now_ns);

/* By how much one of the calls may last longer, at most; UINT64_MAX: unknown. */
uint64_t ip_renewed_calls_latest(const struct ip_renewed_calls *calls);

#endif
