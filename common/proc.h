/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel tells of a process in /proc.
 */
#ifndef IP_PROC_H
#define IP_PROC_H

#include <stdint.h>
#include <sys/types.h>

/* Value of a "Key:" line of /proc/PID/status as a number; -1 where there is none. */
long ip_proc_status(pid_t pid, const char *key);

/* When a process was started, in clock ticks (sysconf(_SC_CLK_TCK)) since boot: with its number
 * it means this process and no other (proc(5), stat, the 22nd field). 0: it is not there, or not
 * known. */
uint64_t ip_proc_started_at(pid_t pid);

#endif
