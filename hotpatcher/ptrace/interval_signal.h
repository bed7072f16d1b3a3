/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timer that sends a signal to the tracer's own thread every few milliseconds while that thread
 * waits for threads of a target. waitpid(2) has no time limit: the signal makes it return (EINTR),
 * and the tracer then looks at the clock. Polling instead would make each stop longer, and would
 * take the CPU from the thread that the tracer waits for.
 */
#ifndef IP_INTERVAL_SIGNAL_H
#define IP_INTERVAL_SIGNAL_H

#include <stdint.h>

#define IP_INTERVAL_SIGNAL_NS 5000000u /* the usual interval, in nanoseconds */

/* Starts the signals: one to the calling thread every every_ns nanoseconds. If the kernel gives
 * no timer, nothing happens. */
void ip_interval_signal_start(uint64_t every_ns);
/* Sets a function that the signal handler calls at each signal; NULL: none. It serves system calls
 * that start again by themselves, and so do not return at a signal. */
void ip_interval_signal_calls(void (*function)(void *data), void *data);
/* Stops the signals that the calling thread has started. */
void ip_interval_signal_stop(void);

#endif
