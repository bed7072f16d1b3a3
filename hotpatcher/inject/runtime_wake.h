/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes a runtime that sleeps: the runtime of a static program, or one that iprobe has just put
 * into a process (inject.h).
 *
 * The runtime that iprobe-cc links into a static program sleeps until a session begins. To wake it
 * takes about 35 system calls in the target, which one of the target's own threads makes:
 *
 *   1. Only one iprobe wakes at a time (a lock on /proc/PID). The runtime is still asleep, and an
 *      iprobe that died has left no thread in the runtime's code. If the target is under seccomp,
 *      its filter might kill the thread for our calls: then iprobe goes on only if it may suspend
 *      the filter for each of these calls (CAP_SYS_ADMIN), as confined.h tells.
 *   2. Choose a thread that waits in a system call which starts again by itself. Lend it real-time
 *      priority, where we may, until it is back (priority_guard.h: the thread has to get a CPU
 *      three times, and the hold is mostly the wait for that). SEIZE, INTERRUPT, look at its
 *      registers. If there is no such thread for a while, take one that is between two instructions
 *      of its own and in no restartable sequence, or one in a call whose time limit begins anew
 *      then. At last take one in any call; that call ends then as it does after any stop (a short
 *      count, EINTR). A call that waits under a signal mask of its own (sigsuspend) counts among
 *      the last if it blocks a signal that its thread does not: that signal would end the call. All
 * of these are safe, since the code that the thread will run calls no library, takes no lock, uses
 * general registers only, and brings its own stack: whatever the thread is in the middle of,
 * malloc, a signal handler, a tiny stack, is not touched.
 *   3. Write the way back into the target's struct ip_wake: the thread's registers, with an
 *      interrupted call wound back to its start, and the thread's signal mask. (Nothing has changed
 *      for the thread.)
 *   4. SETREGS: the thread is at rt_wake, its stack pointer at the block. From here on the thread
 *      finds its way back by itself.
 *   5. SETSIGMASK: no signal handler runs in between. (Step 4 comes first: if we died after setting
 *      the mask alone, the mask would stay for ever.)
 *   6. Resume the thread. It masks signals by itself as well, and
 *   7. sets the runtime up (runtime/lazy_setup.c): the area, the gate, the rooms, the anchor.
 *   8. The thread waits for a signal out of an empty set, for a tenth of a second
 *      (rt_sigtimedwait). If we live we see it there and INTERRUPT it: it stops on its way out of
 *      the kernel, where the kernel starts calls again. If we were too slow, the thread has gone
 *      back by itself, and is left alone.
 *   9. SETSIGMASK, SETREGS to what they were in 2; DETACH. The kernel starts the interrupted call
 *      again, with what is left of its time limit, or delivers the signal that came meanwhile.
 *  10. If we died, no tracer stops the thread in 8: it sets its signal mask back and goes on from
 *      the block (popq..., iretq). A call with a time limit goes on by restart_syscall.
 */
#ifndef IP_RUNTIME_WAKE_H
#define IP_RUNTIME_WAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/inject/borrow.h"
#include "hotpatcher/process/target.h"

/* Whether the target has a runtime that was never set up. */
bool ip_is_asleep(const struct ip_target *target);

/* Wakes the runtime of the target, if it is asleep. 0, with the nanoseconds for which a thread was
 * held (0: no thread was), and target->anchor read anew; -1 with the reason, nothing changed. */
int ip_wake(struct ip_target *target, uint64_t *ret_held_ns);

#endif
