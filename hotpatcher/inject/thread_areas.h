/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether each thread of a target has a thread area of its own, laid out by the C library.
 *
 * Hooks find a thread's slot behind its thread pointer (runtime/self.h). A thread that was made by
 * clone() without the C library's help may have none there, so that its first hook faults, or share
 * another thread's: then both write the same ring, and what either records is lost or mixed up,
 * which no hook can notice. So:
 *
 *   1. In the stop in which probes go live, when all threads stand: the area begins with its own
 *      address, has the thread's own id where glibc and musl keep it, and is no other thread's.
 *      Else nothing is made live, and the reason is told.
 *   2. Threads that come later are looked for all the while. The C library has registered a list of
 *      robust mutexes for each thread of its own (glibc at its start; get_robust_list(2) tells
 *      without a stop). Of a thread that has none, and is still there at the next look, the
 *      registers are read, for which it is stopped for a moment. One without an area of its own
 *      ends the session.
 */
#ifndef IP_THREAD_AREAS_H
#define IP_THREAD_AREAS_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/ptrace/stop.h"

/* Step 1: 0, or -1 with the reason. */
int ip_thread_areas_check(const struct ip_stop *stop);

struct ip_thread_watch;

struct ip_thread_watch *ip_thread_watch_create(void);
void ip_thread_watch_destroy(struct ip_thread_watch *watch);

/* Step 2, now and then. no_stop: no probe went live in a stop; nobody is
 * stopped then where the C library does not tell. 0; -1 with the reason: there is such a thread. */
int ip_thread_watch_step(struct ip_thread_watch *watch, struct ip_target *target, bool no_stop);

#endif
