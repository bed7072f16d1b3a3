/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One system call on a line, as strace -f -tt -T -y has them.
 */
#ifndef IP_CLI_SYSCALLS_LIST_H
#define IP_CLI_SYSCALLS_LIST_H

#include <stdio.h>

#include "analysis/syscalls/syscall_text.h"

struct cli_syscalls_list {
	FILE *out;
	const struct ip_syscall_descriptors *descriptors; /* NULL: none is known */
	uint64_t start, realtime_ns;			  /* a TSC, and CLOCK_REALTIME at it */
	uint64_t hz;
	bool json, scheduled;
};

/* Prints a call. thread: its name, "" where it is not known; function: NULL: not known. */
void cli_syscalls_list_print(const struct cli_syscalls_list *list,
			     const struct ip_syscall_call *call, const char *thread,
			     const char *function);

#endif
