/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A signal to ourselves every few milliseconds while we wait for threads: waitpid() has no time
 * limit, so this is what makes it come back (EINTR) to look at the clock. Polling instead would
 * cost a stop its length, and the thread that is waited for the CPU.
 */
#ifndef IP_INTERVAL_SIGNAL_H
#define IP_INTERVAL_SIGNAL_H

#include <stdint.h>

#define IP_INTERVAL_SIGNAL_NS 5000000u /* as a rule */

void ip_interval_signal_start(uint64_t every_ns);
/* What each tick is to do besides, in a signal handler: for system calls that start again by
 * themselves. NULL: nothing. */
void ip_interval_signal_calls(void (*function)(void *data), void *data);
void ip_interval_signal_stop(void);

#endif
