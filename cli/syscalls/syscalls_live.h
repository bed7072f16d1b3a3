/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe syscalls of a live process: the kernel's events alone, without a trace.
 */
#ifndef IP_CLI_SYSCALLS_LIVE_H
#define IP_CLI_SYSCALLS_LIVE_H

#include "cli/syscalls/syscalls_options.h"

/* Counts the system calls of a process until it ends, the time is over or Ctrl-C, and prints what
 * is asked for. On a terminal the table is shown each second. Returns 0, or -1 with an error. */
int cli_syscalls_live(int pid, const struct cli_syscalls_options *o);

#endif
