/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal to ourselves every few milliseconds while we wait for threads: waitpid() has no time limit, so this is what makes
 * it come back (EINTR) to look at the clock. Polling instead would cost a stop its length, and the thread that is waited for the CPU.
 */
#ifndef IP_TICK_H
#define IP_TICK_H

void ip_tick_start(void);
void ip_tick_stop(void);

#endif
