/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who had the CPU that a thread waited for, in words.
 */
#ifndef IP_CLI_CPU_USER_H
#define IP_CLI_CPU_USER_H

#include <stdint.h>

#include "analysis/wait/thread_states.h"
#include "cli/wait/wait_load.h"

/* Prints, behind "waiting for a CPU", who had it for most of the longest wait, which began at
 * `from` and took so many ticks, or that nobody is known to have had it. count: of waits. */
void cli_wait_print_cpu_user(const struct cli_wait_trace *t, const struct ip_thread_states *thread,
			     uint64_t from, uint64_t ticks, uint64_t count);

#endif
