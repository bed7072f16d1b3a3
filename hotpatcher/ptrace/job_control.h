/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Job control: iprobe itself must not be stopped while it has stopped the threads of a target.
 * Ctrl-Z in the middle of a stop must not leave the target stopped.
 *
 *   1. Before the first SEIZE, SIGTSTP, SIGTTIN and SIGTTOU get a handler that notes the signal.
 *      Only a signal with the default action gets it, since only that action would stop iprobe.
 *      (To block the signals would not be enough: a SIGCONT that is sent to iprobe, see 2, removes
 *      those that are pending.) The signals are delivered to the thread that stops others: it is
 *      the only thread of iprobe that takes signals at all (drain_thread.c). System calls start
 *      again (SA_RESTART), or their callers try them again, as with 2.
 *   2. SIGSTOP cannot be blocked. But the kernel continues a process at the moment at which a
 *      SIGCONT is sent to it, and the timers of a process run while it is stopped. Timers of
 *      iprobe send it a SIGCONT every 20 ms from the stop's deadline on, or from a tenth of a
 *      second on if that is earlier. A SIGSTOP removes a SIGCONT that is pending, and the timer
 *      that has sent this SIGCONT then stands still. So there are two timers, which alternate, and
 *      whichever SIGCONT is delivered starts both anew.
 *      Then the stop goes on, past its deadline: it releases all threads. So a SIGSTOP makes a
 *      stop longer by no more than that time. The SIGSTOP does not come back afterwards: a user
 *      who wants iprobe to be stopped sends it again.
 *   3. When all threads are released, the timers stop, and the signals get their former actions
 *      back. A signal that was noted is raised, once, and stops iprobe now. If a thread that could
 *      not be stopped in time is still a tracee of iprobe (ip_stop_let_go()), this step waits
 *      until it is none any more.
 *
 * This needs no privilege and no other process. It costs twelve system calls a stop, none of them
 * between the first thread's stop and the last thread's release.
 */
#ifndef IP_JOB_CONTROL_H
#define IP_JOB_CONTROL_H

#include <stdint.h>

/* Steps 1 and 2. Calls nest. Only one thread may call this. deadline_ns: the time that the stop may
 * take. */
void ip_job_control_begin(uint64_t deadline_ns);

/* Step 3, at the end that belongs to the outermost ip_job_control_begin(). */
void ip_job_control_end(void);

#endif
