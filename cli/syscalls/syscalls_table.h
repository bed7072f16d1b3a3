/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of iprobe syscalls.
 */
#ifndef IP_CLI_SYSCALLS_TABLE_H
#define IP_CLI_SYSCALLS_TABLE_H

#include <stdio.h>

#include "analysis/syscalls/syscall_sums.h"
#include "cli/syscalls/own_calls.h"
#include "cli/syscalls/syscalls_options.h"

struct cli_syscalls_table {
	const struct cli_syscalls_options *options;
	struct ip_syscall_sums sums;
	struct ip_syscall_reader_sums read;
	uint64_t hz;	  /* of the TSC */
	bool live;	  /* it is no trace */
	int pid;	  /* live: of the process; 0: there are several, or may be */
	size_t processes; /* live: that were counted */
	struct cli_syscalls_own own;
	/* The words for an owner of sums. NULL: the sums have none. */
	const char *(*owner)(void *context, uint32_t owner, bool shown);
	uint32_t (*pid_of)(void *context, uint32_t owner); /* by process */
	void *context;
};

/* Puts the sums in order, and prints them. lines: at most so many, with head and sum; SIZE_MAX: as
 * the options say. */
void cli_syscalls_table_print(struct cli_syscalls_table *table, FILE *out, size_t lines);
/* The same as one JSON document on stdout. */
void cli_syscalls_table_json(struct cli_syscalls_table *table);

#endif
