/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the kernel tells of a process in /proc.
 */
#ifndef IP_PROC_H
#define IP_PROC_H

#include <sys/types.h>

/* Value of a "Key:" line of /proc/PID/status as a number; -1 where there is none. */
long ip_proc_status(pid_t pid, const char *key);

#endif
