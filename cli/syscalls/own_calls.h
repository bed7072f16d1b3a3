/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that iprobe's runtime has made in the target's threads, such as those that read what
 * pointers point to. They are no part of what the program does: they are counted by themselves, and
 * told in one line.
 */
#ifndef IP_CLI_OWN_CALLS_H
#define IP_CLI_OWN_CALLS_H

#include <stdio.h>

#include "analysis/syscalls/syscall_reader.h"

/* All zero: none. */
struct cli_syscalls_own {
	uint64_t calls, ticks;
};

/* Counts a call that is one of these. Returns whether it is. */
bool cli_syscalls_own_take(struct cli_syscalls_own *own, const struct ip_syscall_call *call);

/* Prints the line, where there were any. hz: of the ticks; before: in front of it. */
void cli_syscalls_own_print(const struct cli_syscalls_own *own, uint64_t hz, const char *before,
			    FILE *out);

#endif
