/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What decides where the hooks of a process read, write and jump: struct ip_rt_private, in memory
 * of its own. The area may be written by others, too (a followed child has it, whoever it is by
 * then); this may not.
 *
 *   1. It is written before the gate opens, when no hook of the session is in flight, with
 *      /proc/PID/mem.
 *   2. A hook that is late, of the session before, may find half of it: what keeps it within memory
 *      only grows (the file, which is sealed against shrinking), and all else it looks at behind
 *      the number of the session (runtime/meters.c, step G2).
 *   3. What changes while the session goes on is one aligned word.
 */
#ifndef IP_BOUNDS_H
#define IP_BOUNDS_H

#include "hotpatcher/plan/user_payload.h"
#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

/* Step 1, of an area whose session has begun. user: its call is 0 where there is none. */
int ip_bounds_write(const struct ip_target *target, struct ip_area *area,
		    const struct ip_user_payload *user);

/* What was written last, by whichever iprobe. */
int ip_bounds_read(const struct ip_target *target, struct ip_rt_private *ret);

/* Step 3. From now on hooks may make system calls, or not. */
int ip_bounds_set_reading(const struct ip_target *target, struct ip_area *area, bool may_read);
/* Has a borrowed thread see to it that forked children get the area, or do not. Does nothing where
 * that is so already. */
int ip_bounds_set_inherited(struct ip_target *target, bool inherited);
/* Has a borrowed thread of a forked child put the area out of the child's reach. One is looked for
 * for find_ns. */
int ip_bounds_disown(struct ip_target *child, uint64_t find_ns);
/* Children that are forked from now on have the area, and record in this session; 0: they do
 * not. */
int ip_bounds_set_follow(const struct ip_target *target, uint32_t session);

#endif
