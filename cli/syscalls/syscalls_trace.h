/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe syscalls of a trace.
 */
#ifndef IP_CLI_SYSCALLS_TRACE_H
#define IP_CLI_SYSCALLS_TRACE_H

#include "cli/syscalls/syscalls_options.h"

/* Prints what is asked for. Returns 0, or -1 with an error. */
int cli_syscalls_trace(const char *dir, const struct cli_syscalls_options *o);

#endif
