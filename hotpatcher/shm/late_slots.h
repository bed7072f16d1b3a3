/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots with which a hook of an ended session may still be at work.
 *
 * A hook that outlived its session (its thread got no CPU meanwhile) finds no sub-buffer to write
 * to. But it may take a sub-buffer of the new session for the record that it was about to write. So
 * its slot must not be given to another thread: two threads that write to one slot would overwrite
 * each other's words. Two kinds of slots may have such a thread: slots with a hook in flight (LATE
 * from then on), and slots that a thread is just setting up (UNFINISHED; at the end that thread
 * marks the slot as claimed, with the number of the old session, and takes another slot at its next
 * hook). These slots are not used for one session, and neither is the memory of their blocks
 * (meter_blocks.h). They are used again after that, since a thread that was killed in a hook never
 * leaves its slot.
 *
 * Such a slot still says that a hook is in flight, for who asks whether memory may be unmapped
 * (hotpatcher/plan/window/late_hooks.h). When it is used again, it cannot say so any more. Then the
 * header does (doubt), for as long as there is the area, unless the thread has ended.
 */
#ifndef IP_LATE_SLOTS_H
#define IP_LATE_SLOTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/shm/area.h"

/* Frees all slots, but those for a session that may have a late hook. pid: the target. */
void ip_late_slots_forget(struct ip_area *area, pid_t pid);

/* Whether a slot, or the header, says that a hook of a living thread is in flight. *ret_tid: the
 * thread, as the slot calls it; 0: it is not known which. */
bool ip_late_slots_any(const struct ip_area *area, pid_t pid, uint32_t *ret_tid);

#endif
