/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a stop go unnoticed by the system calls that it breaks off.
 *
 * Most calls start again by themselves, with what is left of their time limits. Two kinds do not:
 * the calls of signal(7) that return EINTR after any stop, and the calls that return what they
 * have transferred so far. For these:
 *
 *   1. Before the stop iprobe sees since when a thread has been waiting (syscall_wait.h): that
 *      gives the end of its time limit.
 *   2. A thread is looked after if our INTERRUPT stopped it in such a call, or if an ignored
 *      signal did (an ignored signal wakes only threads that are traced). It is made to start the
 *      call again. A call without a time limit starts again by the kernel's own means
 *      (ERESTARTNOHAND).
 *   3. A call with a time limit has to become another call, with what is left of the limit; and no
 *      register may be different after it. So the thread goes to code of the runtime
 *      (arch/ARCH/syscall_resume.S). This code makes that call, puts the registers back, and
 *      returns to where the thread was. What the code needs lies in a slot of the runtime's own
 *      memory (restart_slot.h): below the thread's stack pointer there may be no room, and the
 *      code trusts no memory but iprobe's. The slot lasts as long as the wait. (32-bit code has no
 *      free register to hold the address of the slot: there the slot is the code itself, written
 *      for this wait.) The code is compared byte for byte before a thread is sent there. A thread
 *      that may dispatch system calls by where they come from (syscall_dispatch.h) is not sent
 *      there.
 *   4. Registers are set when all threads stand and it is decided that the target may be changed
 *      (stop.h). If it may not be changed, the call begins anew with all of its limit.
 *   5. A further stop finds the thread in that code, and with it the end of its limit.
 *   6. At the release the length of the stop is taken off what is left. This is also done for
 *      calls that keep the time left in the program's memory by themselves (ppoll, pselect6,
 *      select).
 *   7. In all cases a signal with a handler that comes first, or comes while the thread waits,
 *      makes the call return EINTR (or what it has transferred), as it would have done without
 *      iprobe.
 *
 * Time limits of sockets (SO_RCVTIMEO, SO_SNDTIMEO) belong to the socket: there the code waits by
 * ppoll() for what is left, and then makes the call for what is ready. In three cases a call
 * begins anew with all of its limit: if waiting by ppoll() would not be the same; if no code of
 * iprobe's is there; or if the thread was not seen to fall asleep. Such a call is never shorter
 * than the program asked for, and never returns EINTR. It is counted (ip_stops.renewed).
 *
 * iprobe never touches close(), which has closed what it was to close, and calls that it does not
 * know.
 */
#ifndef IP_SYSCALL_RESTART_H
#define IP_SYSCALL_RESTART_H

#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/syscall_wait.h"

/* A time that the kernel or iprobe has left in the thread's memory for the call that starts again.
 * The length of the stop has to be taken off it. */
struct ip_time_left {
	uint64_t address; /* 0: none */
	bool timeval;
	uint64_t stopped_ns; /* CLOCK_MONOTONIC when the time was right */
};

struct ip_arch_syscall;

/* Whether the thread, of which call was read, may have been in a call that has to be looked
 * after. */
bool ip_restart_concerns(const struct ip_target *target, pid_t tid,
			 const struct ip_arch_syscall *call);

/* Step 4, for a thread that stands; status: its wait status. may_take: all threads stand, so that a
 * slot may be taken. *ret_left: what ip_restart_release() needs. */
void ip_restart_stopped(struct ip_target *target, pid_t tid, int status,
			struct ip_syscall_waits *waits, bool may_take,
			struct ip_time_left *ret_left);

/* For a thread that may not be changed: if iprobe has broken its call off, the call begins anew.
 * target: NULL if it is not known. */
void ip_restart_plainly(const struct ip_target *target, pid_t tid, int status);

/* Step 6. To be called just before the thread is let go. */
void ip_restart_release(pid_t tid, const struct ip_time_left *left);

/* Writes a text about the last call that began anew: "thread 12 in recvmsg". */
void ip_restart_describe(const struct ip_target *target, char *ret, size_t size);

/* Whether pc is the program counter of a thread that goes on waiting in the runtime's code. The
 * thread may stay there for any time. */
bool ip_restart_is_waiting(const struct ip_target *target, uint64_t pc);

#endif
