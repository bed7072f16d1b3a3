/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct ip_rt_private: it decides where the hooks of a process read, write and jump to. It lies in
 * memory of its own. Other processes may write to the area, too: a child that was followed has it
 * mapped, whoever that child runs as by then. They cannot write to this memory.
 *
 *   1. The tracer writes the structure through /proc/PID/mem before it opens the gate, when no hook
 *      of the session is in flight.
 *   2. A late hook of the session before may read the structure while half of it is written. The
 *      bound that keeps the hook within memory only grows (it is the size of the file, which is
 *      sealed against shrinking, or of what is mapped of it). It is lowered only when no hook is in
 *      flight (late_hooks.h). The hook reads everything else after it has checked the number of
 *      the session (runtime/meters.c, step G2).
 *   3. Whatever changes while the session goes on is one aligned word.
 */
#ifndef IP_BOUNDS_H
#define IP_BOUNDS_H

#include "hotpatcher/plan/user_payload.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

/* Does step 1, for an area whose session has begun. user->call is 0 if there is no user's
 * payload. */
int ip_bounds_write(const struct ip_target *target, struct ip_area *area,
		    const struct ip_user_payload *user);

/* Reads what was written last, by this iprobe or by another one. */
int ip_bounds_read(const struct ip_target *target, struct ip_rt_private *ret);

/* Does step 3: from now on hooks may make system calls, or may not. */
int ip_bounds_set_reading(const struct ip_target *target, struct ip_area *area, bool may_read);
/* Has a borrowed thread set whether forked children get the area. Does nothing if that is already
 * set as wanted. */
int ip_bounds_set_inherited(struct ip_target *target, bool inherited);
/* Has a borrowed thread of a forked child take the area away from the child. The search for such a
 * thread takes at most find_ns. The caller has the child's lock (ip_borrow_lock()). */
int ip_bounds_disown(struct ip_target *child, uint64_t find_ns);
/* Sets the session in which children that are forked from now on record, with the area; 0: they do
 * not record. */
int ip_bounds_set_follow(const struct ip_target *target, uint32_t session);

#endif
