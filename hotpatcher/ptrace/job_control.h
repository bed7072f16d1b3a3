/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not being stopped ourselves while others are stopped by us: Ctrl-Z in the middle of a stop must
 * not leave the target standing.
 *
 *   1. Before the first SEIZE: SIGTSTP, SIGTTIN and SIGTTOU, where they would stop us, get a
 *      handler that takes note of them. (Blocking them would not do: a SIGCONT that is sent, 2,
 *      takes away those that wait.) They come in the thread that stops others, which is the only
 *      one that takes signals at all (drain_thread.c); system calls are started again (SA_RESTART)
 *      or tried again by who makes them, as with 2.
 *   2. SIGSTOP cannot be blocked. But the kernel continues a process in the moment in which a
 *      SIGCONT is sent to it, and its timers run while the process is stopped: ours send us SIGCONT
 *      from the stop's deadline on (at most a tenth of a second), every 20 ms. A SIGSTOP takes away
 *      a SIGCONT that waits to be delivered, and the timer that has sent it stands still then: so
 *      there are two, which take turns, and whichever is delivered starts both anew.
 *      Then the stop goes on, past its deadline: it releases all. So SIGSTOP makes a stop longer by
 *      no more than that. It does not come back afterwards: who wants us to stand sends it again.
 *   3. When all are released the timer stops and the signals are what they were; one that was noted
 *      is raised, once, and stops us now. Where a thread that could not be stopped in time is our
 *      tracee still (ip_stop_let_go()), this waits until that is gone, too.
 *
 * Needs no privilege, no other process, and costs twelve system calls a stop, none of them between
 * the first thread's stop and the last one's release.
 */
#ifndef IP_JOB_CONTROL_H
#define IP_JOB_CONTROL_H

#include <stdint.h>

/* Steps 1 and 2. They nest; to be called by one thread only. */
void ip_job_control_begin(uint64_t deadline_ns);

/* Step 3, for the last of those that have begun. */
void ip_job_control_end(void);

#endif
