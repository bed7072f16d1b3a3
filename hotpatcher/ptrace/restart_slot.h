/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of the runtime's memory for threads that go on waiting there (syscall_restart.h; struct
 * ip_restart_slot).
 *
 *   1. A slot is handed out in a stop of the whole process only: then nobody else can be at it,
 *      neither a thread nor another iprobe. It is written before the thread is sent to its calls.
 *   2. It is the thread's until that has its result: its own code sets owner to 0 when it needs
 *      nothing of the slot any more.
 *   3. A thread that leaves by a jump out of a handler, or by being cancelled, does not come to
 *      that. If it waits again with the very stack pointer that it had, nothing of the former wait
 *      is left on its stack, and the slot is its own still; that of a thread that has ended is
 *      anybody's, when there is no other.
 *   4. 32-bit code cannot say by itself that it needs its slot no more, which would be the last
 *      thing that it does there: a slot stays its thread's, and is handed out again to it where it
 *      waits with the same stack pointer, or when it has ended.
 *   5. Where none is to be had, or the code that stands there is not what we know, the call begins
 *      anew.
 */
#ifndef IP_RESTART_SLOT_H
#define IP_RESTART_SLOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/abi/restart.h"
#include "hotpatcher/process/target.h"

struct ip_restart_place {
	uint64_t slot, calls; /* addresses in the target; of 32-bit code the same */
	uint64_t call;	      /* which of its calls: 0, IP_RESTART_POLL, IP_RESTART_REST */
};

/* A slot for a thread that stands in a stop of the whole process, and whose code is as it has to
 * be. 0, with slot and calls; or -1, without a word: none. */
int ip_restart_slot_take(const struct ip_target *target, pid_t tid, uint64_t sp,
			 struct ip_restart_place *ret);

/* What is to be written to the slot of a thread of 32-bit code, IP_RESTART_NARROW bytes. */
void ip_restart_narrow_image(const struct ip_restart *restart, const struct ip_restart_place *place,
			     pid_t owner, uint64_t sp, uint8_t *ret);

/* Which slot and call a thread waits in that stands at pc, behind that call; false: none. */
bool ip_restart_slot_at(const struct ip_target *target, pid_t tid, uint64_t pc,
			struct ip_restart_place *ret);

#endif
