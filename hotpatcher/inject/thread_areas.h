/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether each thread of a target has a thread area of its own, laid out by the C library.
 *
 * Hooks find the slot of a thread behind its thread pointer (runtime/self.h). A thread that was
 * made by clone() without the C library's help may have no area there, so that its first hook
 * faults. Or it may share the area of another thread: then both write the same ring, and what
 * either records is lost or mixed up, which no hook can notice. So:
 *
 *   1. In the stop in which probes go live, while all threads are stopped, each thread is checked:
 *      its area begins with the area's own address, holds the thread's own id where glibc and musl
 *      keep it, and is no other thread's area. If one fails, nothing is made live, and the reason
 *      is reported. The child of a vfork() in which its parent has just been stopped has its
 *      parent's area, and is left out: the two do not run at the same time.
 *   2. Threads that come later are looked for during the whole session. The C library has
 *      registered a list of robust mutexes for each thread that it made (glibc at the thread's
 *      start; get_robust_list(2) tells without a stop). If a thread has no such list, and is still
 *      there at the next look, it is stopped for a moment and its registers are read. A thread
 *      without an area of its own ends the session.
 */
#ifndef IP_THREAD_AREAS_H
#define IP_THREAD_AREAS_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/ptrace/stop.h"

/* Step 1. 0, or -1 with the reason. */
int ip_thread_areas_check(const struct ip_stop *stop);

/* Whether the C library has registered all threads, as in step 2: then each has an area of its own.
 * What a stop sees in step 1 is known then without one. */
bool ip_thread_areas_are_registered(const struct ip_target *target);

struct ip_thread_areas;

struct ip_thread_areas *ip_thread_areas_create(void);
void ip_thread_areas_destroy(struct ip_thread_areas *areas);

/* Step 2, to be called now and then. no_stop: no probe went live in a stop; then no thread is
 * stopped if the C library does not register its threads. 0; -1 with the reason: there is a thread
 * without an area of its own. */
int ip_thread_areas_step(struct ip_thread_areas *areas, struct ip_target *target, bool no_stop);

#endif
