/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking a runtime that sleeps: that of a static program, or one that iprobe has just put into a
 * process (inject.h).
 *
 * The runtime that iprobe-cc links in sleeps until somebody traces. Waking it takes some twenty
 * system calls in the target, made by one of its own threads:
 *
 *   1. One iprobe at a time (a lock on /proc/PID). The runtime is still asleep, no thread is left
 *      in its code by an iprobe that died, and no seccomp filter would kill the thread for our
 *      calls.
 *   2. Choose a thread that waits in a system call which starts again by itself; lend it real-time
 *      priority, where we may, until it is back (priority_guard.h: it has to get a CPU three times,
 *      and the hold is mostly waiting for that); SEIZE, INTERRUPT, look at its registers. Where
 *      there is none for a while: one that is between two instructions of its own, in no
 *      restartable sequence; at last one in any call, which ends then as it does after any stop (a
 *      short count, EINTR). All are safe, since what it will run calls no library, takes no lock,
 *      uses general registers only, and brings its own stack: whatever the thread is in the middle
 *      of, malloc, a signal handler, a tiny stack, is not touched.
 *   3. Write the way back into the target's struct ip_wake: the thread's registers, with an
 *      interrupted call wound back to its start, and its signal mask. (Nothing has changed for the
 *      thread.)
 *   4. SETREGS: the thread is at rt_wake, its stack pointer at the block. From here on it finds its
 *      way back by itself.
 *   5. SETSIGMASK: no handler runs in between. (4 first: a mask alone would stay for ever if we
 *      died.)
 *   6. Resume; the thread masks signals by itself as well, and
 *   7. sets the runtime up (runtime/static_entry.c): the area, the gate, the rooms, the anchor.
 *   8. It waits for no signal, for a tenth of a second (rt_sigtimedwait). If we live we see it
 *      there and INTERRUPT: it stops on its way out of the kernel, where calls are started again.
 *      Were we too slow, it has gone back by itself, and is left alone.
 *   9. SETSIGMASK, SETREGS to what they were in 2; DETACH. The kernel starts the interrupted call
 *      again, with what is left of its time limit, or delivers the signal that came meanwhile.
 *  10. If we died, nobody stops it there: the thread sets its mask back and goes on from the block
 *      (popq..., iretq). A call with a time limit goes on by restart_syscall.
 */
#ifndef IP_RUNTIME_WAKE_H
#define IP_RUNTIME_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/inject/borrow.h"
#include "hotpatcher/process/target.h"

/* The target has a runtime that was never set up. */
bool ip_is_asleep(const struct ip_target *target);

/* Wakes it, if it is asleep. 0, with the nanoseconds for which a thread was held (0: none), and
 * target->anchor read anew; -1 with the reason, nothing changed. */
int ip_wake(struct ip_target *target, uint64_t *ret_held_ns);

#endif
