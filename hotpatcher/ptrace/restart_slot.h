/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of the runtime's memory for threads that go on waiting there (syscall_restart.h; struct
 * ip_restart_slot).
 *
 *   1. A slot is handed out only in a stop of the whole process: then nothing else can use it,
 *      neither a thread nor another iprobe. The slot is written before the thread is sent to the
 *      slot's calls.
 *   2. The slot belongs to the thread until the thread has the result of its call: its own code
 *      sets owner to 0 when it needs nothing of the slot any more.
 *   3. A thread that leaves by a jump out of a handler, or because it is cancelled, does not get
 *      there. If such a thread waits again with the very stack pointer that it had, nothing of the
 *      former wait is left on its stack, and the slot is still its own. The slot of a thread that
 *      has ended may be given to any thread, if there is no other slot.
 *   4. 32-bit code cannot say by itself that it does not need its slot any more, since it would
 *      have to say so after its last use of the slot. So a slot stays its thread's. It is handed
 *      out again to that thread if it waits with the same stack pointer, or to another thread when
 *      the owner has ended.
 *   5. If there is no free slot, or if the code in the runtime is not the code that iprobe knows,
 *      the call begins anew.
 */
#ifndef IP_RESTART_SLOT_H
#define IP_RESTART_SLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/abi/restart.h"
#include "hotpatcher/process/target.h"

struct ip_restart_place {
	uint64_t slot, calls; /* addresses in the target; for 32-bit code they are the same */
	uint64_t call;	      /* which of its calls: 0, IP_RESTART_POLL, IP_RESTART_REST */
};

/* Finds a slot for a thread that stands in a stop of the whole process, and checks that the slot's
 * code is as it must be. 0, with slot and calls; -1, without an error message: there is no slot. */
int ip_restart_slot_take(const struct ip_target *target, pid_t tid, uint64_t sp,
			 struct ip_restart_place *ret);

/* Makes what the slot of a thread of 32-bit code has to hold: IP_RESTART_NARROW bytes at ret. */
void ip_restart_narrow_image(const struct ip_restart *restart, const struct ip_restart_place *place,
			     pid_t owner, uint64_t sp, uint8_t *ret);

/* Finds the slot and the call in which a thread waits that stands at pc, which is behind that call.
 * false: the thread waits in none. */
bool ip_restart_slot_at(const struct ip_target *target, pid_t tid, uint64_t pc,
			struct ip_restart_place *ret);

#endif
