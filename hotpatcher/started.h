/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a process was started: with its number it means this process and no other (proc(5), stat, the 22nd field).
 */
#ifndef IP_STARTED_H
#define IP_STARTED_H

#include <stdint.h>
#include <sys/types.h>

/* In clock ticks (sysconf(_SC_CLK_TCK)) since boot; 0: it is not there, or not known. */
uint64_t ip_started_at(pid_t pid);

#endif
