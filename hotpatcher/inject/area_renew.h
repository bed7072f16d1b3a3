/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a forked process ring memory of its own.
 *
 * A process that was forked from one that has the runtime has the runtime, too, but not the area
 * (runtime/area.c): the area was withheld from it, or taken from it, or it shares its parent's. A
 * session in such a process needs an area that no other process has:
 *
 *   1. The lock of the process (ip_borrow_lock()) is held until the caller has the session lock of
 *      the new area. Until then no other iprobe changes the process's text: one that records its
 *      parent takes the same lock before it puts the child's sites back (step 3 of
 *      session/follow/follow_fork.h), and leaves a process alone that has an area of its own.
 *   2. Read the maps, under the lock, and decide. To renew: nothing but covers lies where the area
 *      was. To replace: what lies there is what iprobe has left there, or the parent's area.
 *      Anything else belongs to the program: refuse.
 *   3. A process that shares its memory with another one (vfork) is refused: the area would be
 *      replaced for both.
 *   4. A borrowed thread makes the file and maps it, by the steps of runtime_wake.h. If we die
 *      there, the thread goes on alone, and the next iprobe finds either the old state or the new
 *      one.
 *   5. Read the maps and the anchor again. ip_area_open() checks what is there now as it does for
 *      any other process.
 */
#ifndef IP_AREA_RENEW_H
#define IP_AREA_RENEW_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"

/* Whether the process was forked from one whose runtime was set up, and has not got ring memory of
 * its own: it has none, or (*ret_shares) it has that of the process that it was forked from. A
 * process that shares its memory with the one that made the area (clone(CLONE_VM)) has got it. */
bool ip_area_renew_is_needed(const struct ip_target *target, bool *ret_shares);

/* Whether ip_area_renew() would refuse, by steps 2 and 3; nothing is changed. 0, or -1 with the
 * reason. */
int ip_area_renew_check(struct ip_target *target, bool shares);

/* Makes the area; the target is read anew. The caller holds ip_borrow_lock(). shares: replaces the
 * area that the process shares. 0, with the nanoseconds for which a thread was held; -1 with the
 * reason, nothing changed. */
int ip_area_renew(struct ip_target *target, bool shares, uint64_t *ret_held_ns);

#endif
