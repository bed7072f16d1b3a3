/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exact CPU time of another process, for a while.
 *
 * The clock of another process (clock_getcpuclockid(3)) is brought up to date by the tick: of a
 * stretch of some milliseconds it tells little. A software counter of the kernel on each of its
 * threads (perf_event_open(2), the task clock) is exact whenever it is read, and is inherited by
 * threads that they create. It costs the threads something at each context switch, so there is one
 * only while it is needed. Nothing of the process is touched; the counters go with our descriptors.
 *
 *   1. Threads are listed, and get a counter each. One that is created meanwhile by one that has
 *      none yet is not counted: whoever reads compares with the clock.
 *   2. A counter in use anywhere has the kernel switch its hooks on, which takes some ten
 *      milliseconds, and off again a second after the last one. So one of our own is kept, which
 *      counts nothing.
 */
#ifndef IP_CPU_WATCH_H
#define IP_CPU_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define IP_CPU_WATCH_THREADS 64u /* of a process that has more nothing is counted */

struct ip_cpu_watch {
	int own; /* step 2; -1: none */
	int fds[IP_CPU_WATCH_THREADS];
	size_t n; /* 0: it is not running */
};

/* Nothing runs yet. Whether the kernel has such counters for us. */
bool ip_cpu_watch_init(struct ip_cpu_watch *watch);
void ip_cpu_watch_clear(struct ip_cpu_watch *watch);

/* Counts from now on. false: it cannot be had (it may not be, or there are too many threads). */
bool ip_cpu_watch_start(struct ip_cpu_watch *watch, pid_t pid);
/* CPU time that they have had since, ns. false: not known, it is not running. */
bool ip_cpu_watch_read(const struct ip_cpu_watch *watch, uint64_t *ret_ns);
void ip_cpu_watch_stop(struct ip_cpu_watch *watch);

#endif
