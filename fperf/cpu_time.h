/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact CPU time of another process, for a limited time.
 *
 * The clock of another process (clock_getcpuclockid(3)) is brought up to date at each tick. So it
 * says little about a stretch of some milliseconds. A software counter of the kernel on each of its
 * threads (perf_event_open(2), the task clock) is exact whenever it is read. Threads that these
 * threads create inherit it. It costs the threads something at each context switch, so it exists
 * only while it is needed. Nothing in the process is changed. The counters go away when their
 * descriptors are closed.
 *
 *   1. The threads are listed, and each gets a counter. A thread is not counted if a thread creates
 *      it that has no counter yet. So the reader of the counters compares them with the clock.
 *   2. When the first counter on the machine is used, the kernel switches its hooks on, which takes
 *      some ten milliseconds. It switches them off a second after the last one has gone. So fperf
 *      keeps a counter on itself, which counts nothing.
 */
#ifndef IP_CPU_TIME_H
#define IP_CPU_TIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_CPU_TIME_THREADS 64u /* a process that has more threads is not watched */

struct ip_cpu_time {
	int own; /* descriptor of the counter of step 2; -1: none */
	int fds[IP_CPU_TIME_THREADS];
	size_t n; /* number of fds; 0: the process is not watched */
};

/* It is not started. Returns whether the kernel lets fperf have such counters. */
bool ip_cpu_time_init(struct ip_cpu_time *t);
void ip_cpu_time_clear(struct ip_cpu_time *t);

/* Counts from now on. Returns false if this is not possible: it is not allowed, or there are too
 * many threads. */
bool ip_cpu_time_start(struct ip_cpu_time *t, pid_t pid);
/* Reads the CPU time that the threads have had since the start, in ns. Returns false if it is not
 * known, or if it is not started. */
bool ip_cpu_time_read(const struct ip_cpu_time *t, uint64_t *ret_ns);
void ip_cpu_time_stop(struct ip_cpu_time *t);

#endif
