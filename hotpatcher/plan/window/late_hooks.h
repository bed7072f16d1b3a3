/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves that no thread of a target is in a hook any more, so that memory which hooks use can be
 * unmapped. The session is over: the gate is closed and no site is live. So no hook begins, and a
 * thread that is once seen outside of hooks stays outside. The threads can be looked at one after
 * the other, while the others run.
 *
 *   1. Find the processes that share the target's memory (shared_mm.h): their threads are looked at
 *      like those of the target.
 *   2. No slot of a living thread says that a hook is in flight. A hook that works on records or
 *      meters says so, and so does one that has called the user's payload, or that claims its slot.
 *      This also finds a hook whose state a program has put away, as a scheduler of its own does
 *      that leaves a signal handler by switching to another stack. A slot says so until the next
 *      session but one begins and uses the slot again; if the thread lives then, the area's header
 *      says for good that it is not known any more (hotpatcher/shm/late_slots.h). The slots are
 *      read again at the end.
 *   3. Each thread that waits in the kernel: its program counter lies neither in the runtime nor
 *      in a stub, and its stack has no frame of a signal handler that interrupted code in there.
 *      The stack is read from the stack pointer to the end of the mapping, and of those that
 *      adjoin it with the same permissions. If a frame on it tells of another stack, which the
 *      interrupted code was on, that one is read as well, and so on. Hooks call nothing else in
 *      which a thread could wait. The thread must not have run while its stacks were read: the
 *      kernel counts how often it has. Where it does not count, the thread is stopped, as in 4.
 *   4. A thread that runs is looked at again after a nap, and is stopped at last, alone, for a
 *      moment; unless the caller wants no stop.
 *   5. The list of threads is read again until there is none that was not looked at. (A new thread
 *      begins outside of hooks, but a number may have been another thread's.)
 *
 * What only looks like such a frame, left over in a buffer, counts too: then the answer is that it
 * is not known. Code that renews system calls (syscall_restart.h) is no hook, although it lies in
 * the runtime.
 */
#ifndef IP_LATE_HOOKS_H
#define IP_LATE_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/process/target.h"
#include "hotpatcher/shm/area.h"

/* Looks at all threads, for limit_ns at most. may_stop: running threads may be stopped, one after
 * the other; that counts as looks of the target. 0: no thread is in a hook; -1: one may be, with
 * the reason. */
int ip_late_hooks_check(struct ip_target *target, const struct ip_area *area, uint64_t limit_ns,
			bool may_stop);

#endif
