/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe syscalls of a live process: the kernel's events alone, without a trace.
 */
#ifndef IP_CLI_SYSCALLS_LIVE_H
#define IP_CLI_SYSCALLS_LIVE_H

#include "cli/syscalls/syscalls_options.h"
#include "service/processes.h"

/* Counts the system calls of processes until these end, the time is over or Ctrl-C, and prints what
 * is asked for. On a terminal the table is shown each second. Returns 0; 1: one that was named by
 * its pid was not counted, and that was told; -1 with an error. */
int cli_syscalls_live(const struct ip_service_choice *choice, const struct cli_syscalls_options *o);

#endif
