/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stop goes unnoticed by the system calls that it breaks off.
 *
 * Most calls start again by themselves, with what is left of their time limits. What is left are
 * those of signal(7) that return EINTR after any stop, and those that return what they have
 * transferred so far. Of these:
 *
 *   1. Before the stop it is seen since when a thread has been waiting (syscall_wait.h): that gives
 *      the end of its time limit.
 *   2. A thread that our INTERRUPT stopped in such a call (or a signal that is ignored, which wakes
 *      only threads that are traced) is made to start the call again: without a limit, by the
 *      kernel's own means (ERESTARTNOHAND).
 *   3. With a limit it has to be another call, with what is left; and no register may be different
 *      after it. So the thread goes to code of the runtime (arch/ARCH/syscall_resume.S) which makes
 * that call, puts the registers back, and returns to where the thread was. What the code needs lies
 *      in a slot of the runtime's own memory (restart_slot.h): below the thread's stack pointer
 *      there may be no room, and the code believes nobody's memory but ours. The slot lasts as long
 *      as the wait. (32-bit code has no register to spare that tells the slot: there the slot is
 *      the code, written for this wait.) The code is compared byte for byte before a thread is sent
 *      there; and a thread that may dispatch system calls by where they come from
 *      (syscall_dispatch.h) is not.
 *   4. Registers are set when all threads stand and it is decided that the target may be
 *      changed (stop.h). Where it may not be, the call begins anew with all of its limit.
 *   5. A further stop finds the thread in that code, and with it the end of its limit.
 *   6. At the release the length of the stop is taken off what is left, also for calls that keep
 *      that in the program's memory by themselves (ppoll, pselect6, select).
 *   7. In all cases a signal with a handler that comes first, or while the thread waits, makes the
 *      call return EINTR (or what it has transferred), as it would have without us.
 *
 * Time limits of sockets (SO_RCVTIMEO, SO_SNDTIMEO) belong to the socket: there the code waits by
 * ppoll() for what is left, and makes the call for what is ready. Where that would not be the same,
 * where no code of ours is there, or the thread was not seen to fall asleep, a call begins anew
 * with all of its limit: never shorter than asked for, never EINTR; and counted
 * (ip_stops.renewed).
 *
 * Never touched: close(), which has closed what it was to close; calls that we do not know.
 */
#ifndef IP_SYSCALL_RESTART_H
#define IP_SYSCALL_RESTART_H

#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/syscall_wait.h"

/* A time that the kernel or we have left in the thread's memory for the call that starts again:
 * it has to become less by the length of the stop. */
struct ip_time_left {
	uint64_t address; /* 0: none */
	bool timeval;
	uint64_t stopped_ns; /* CLOCK_MONOTONIC when it was right */
};

struct ip_arch_syscall;

/* Whether the thread, of which this was read, may come from a call that has to be looked after. */
bool ip_restart_concerns(const struct ip_target *target, pid_t tid,
			 const struct ip_arch_syscall *call);

/* Step 4, for a thread that stands, with its wait status. may_take: all threads do. What
 * ip_restart_release() wants. */
void ip_restart_stopped(struct ip_target *target, pid_t tid, int status,
			struct ip_syscall_waits *waits, bool may_take,
			struct ip_time_left *ret_left);

/* The same for one that may not be changed: its call, if we have broken it off, begins anew.
 * target: NULL where it is not known. */
void ip_restart_plainly(const struct ip_target *target, pid_t tid, int status);

/* To be called just before the thread is let go. */
void ip_restart_release(pid_t tid, const struct ip_time_left *left);

/* Of the last call that began anew: "thread 12 in recvmsg". */
void ip_restart_describe(const struct ip_target *target, char *ret, size_t size);

/* Whether a program counter is that of a thread which goes on waiting in our code; it may stay
 * there for any time. */
bool ip_restart_is_waiting(const struct ip_target *target, uint64_t pc);

#endif
