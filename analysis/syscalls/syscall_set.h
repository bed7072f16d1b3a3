/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of system calls, as strace's -e names them.
 */
#ifndef IP_SYSCALL_SET_H
#define IP_SYSCALL_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "common/trace/kernel_format.h"

struct ip_syscall_set {
	uint64_t bits[IP_KERNEL_SYSCALLS_MAX / 64];
};

/* Reads "openat,read", "%file,close", "!futex" (all but these), with or without "trace=" in front.
 * Classes: %file (a path is an argument), %desc (a descriptor is one), %network, %process, %memory,
 * %signal, %ipc; a call may also be given by its number. Returns 0, or -1 with an error, which
 * names the nearest call. */
int ip_syscall_set_parse(const char *text, struct ip_syscall_set *ret);

static inline bool ip_syscall_set_has(const struct ip_syscall_set *set, unsigned number)
{
	return number < IP_KERNEL_SYSCALLS_MAX && set->bits[number / 64] >> number % 64 & 1;
}

/* The name of a system call. One that is not known is "syscall_N", in the buffer. */
const char *ip_syscall_name(unsigned number, char buffer[32]);

/* The names of an argument: the i-th in the table's text, in the buffer. NULL: there are fewer. */
const char *ip_syscall_argument_name(unsigned number, unsigned i, char buffer[32]);

/* Whether an argument of that name is a descriptor; a path. */
bool ip_syscall_names_descriptor(const char *argument);
bool ip_syscall_names_path(const char *argument);

#endif
