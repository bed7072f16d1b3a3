/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints who kept functions waiting.
 */
#ifndef IP_CLI_WAIT_CULPRIT_PRINT_H
#define IP_CLI_WAIT_CULPRIT_PRINT_H

#include "analysis/wait/wait_culprits.h"
#include "cli/wait/wait_load.h"
#include "common/json.h"

/* Prints "another process on CPU 3" to stdout, and returns true, if the thread stands for all that
 * are not shown (IP_KERNEL_OTHER). */
bool cli_wait_print_other(const struct ip_thread_states *thread);

/* Prints ", ended by redis-server (4711) in serverCron" to stdout: the first of n that is known.
 * Nothing, where nobody is. */
void cli_wait_print_ender(const struct cli_wait_trace *t, const struct ip_wait_culprit *culprits,
			  size_t n);

/* Prints a line: who had the CPUs that a function waited for. idle: there is a column for that. */
void cli_wait_print_cpu_users(const struct cli_wait_trace *t,
			      const struct ip_wait_culprits *culprits, uint32_t function,
			      uint64_t ticks, bool idle);

/* An array of all of them: name. */
void cli_wait_json_culprits(struct ip_json *j, const struct cli_wait_trace *t,
			    const struct ip_wait_culprit *culprits, size_t n, const char *name);

#endif
