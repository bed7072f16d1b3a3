/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which waits of threads are idle ones: the thread has nothing to do, and waits for new work. A
 * quiet server spends nearly all of its time so, which hides what it does else.
 *
 * Of each thread, by the calls of the trace and its states:
 *
 *   - A wait may be idle if by its system call threads ask for work: it waits for several
 *     descriptors (poll, epoll, select), for connections (accept), for a signal (pause, sigsuspend,
 *     sigtimedwait), for a condition, a semaphore or the end of a thread (a futex that is no lock),
 *     or reads from a client's connection or from a socket of datagrams. What ended by an answer,
 *     on a connection that the process has made itself, is none.
 *   - It is idle where it is the outermost one of its thread: no wait of these kinds, and none for
 *     a socket or a pipe, is in fewer calls; nor is a call that asks for descriptors or connections
 *     and returned at once. What comes before the thread's first recorded call does not count, and
 *     call paths with one of these only if they have a tenth of the time. Of several paths with as
 *     few calls the one that waited longest is idle, if it has half of the time of all of these,
 *     sleeps included.
 *   - What the thread was in when the recording began may lack callers that had gone by a jump. It
 *     counts as in the longest path of later waits that has its calls, and the same innermost one.
 *   - Where all calls around a wait, of which there is at least one, are still open when the
 *     thread's recording ends, it is idle in any case; and so is a sleep, and a read from a pipe.
 *
 * So a wait for an answer, a lock, or a disk within a request is none.
 */
#ifndef IP_IDLE_WAITS_H
#define IP_IDLE_WAITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/thread_states.h"

struct ip_idle_wait {
	uint64_t from, to; /* TSC: the thread was blocked in it */
	size_t run;	   /* of the trace: whose call it was in */
	uint32_t wait;	   /* of the thread's waits */
};

struct ip_idle_waits {
	struct ip_idle_wait *items; /* by run, then by time */
	size_t n;
};

/* Reads the calls of the trace. states, descriptors: of the trace. *ret: the caller clears it in
 * any case. Returns 0, or -1 with an error. */
int ip_idle_waits_find(struct ip_trace_reader *trace, const struct ip_states *states,
		       const struct ip_descriptors *descriptors, struct ip_idle_waits *ret);
void ip_idle_waits_clear(struct ip_idle_waits *idle);

/* The first of a run's; *ret_n: how many it has. */
const struct ip_idle_wait *ip_idle_waits_of(const struct ip_idle_waits *idle, size_t run,
					    size_t *ret_n);

#endif
