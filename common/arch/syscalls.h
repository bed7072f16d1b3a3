/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls of the machine: names and arguments. They are the names that syscalls(2) and the
 * kernel's own tracepoints use.
 */
#ifndef IP_SYSCALLS_H
#define IP_SYSCALLS_H

#include <stdbool.h>
#include <stdint.h>

#define IP_SYSCALL_ARGUMENTS 6 /* the most that a system call has */

struct ip_syscall {
	const char *name;
	/* the names of its arguments in their order, separated by commas; "": it has none, or they
	 * are not known */
	const char *arguments;
};

/* The system call with a number; NULL: there is none, or it is newer than this table. */
const struct ip_syscall *ip_syscall_find(uint64_t number);
/* Whether what a system call returns, where it is no error, is a descriptor. */
bool ip_syscall_returns_descriptor(uint64_t number);
/* Which arguments of a system call are paths: a bit 1 << I for each, of two at most. */
unsigned ip_syscall_path_arguments(uint64_t number);
/* Whether its paths are known only if it has failed: what makes a descriptor is looked at by that,
 * and who has executed a program has lost the memory where the path stood. */
bool ip_syscall_path_if_failed(uint64_t number);
/* All numbers of the table are below this one. */
unsigned ip_syscall_end(void);

#endif
