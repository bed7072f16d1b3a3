/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of waits and deadlines.
 */
#ifndef IP_NOW_H
#define IP_NOW_H

#include <stdint.h>

/* CLOCK_MONOTONIC, nanoseconds. */
uint64_t ip_now_ns(void);

/* The CPU time that the calling thread has had, nanoseconds: what a busy machine does not lengthen.
 */
uint64_t ip_thread_cpu_ns(void);

#endif
