/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What syscall_wait.c and syscall_wait_runners.c share: reading what the kernel says of a thread,
 * and clocks of CPUs.
 */
#ifndef IP_SYSCALL_WAIT_PRIVATE_H
#define IP_SYSCALL_WAIT_PRIVATE_H

#include "hotpatcher/ptrace/syscall_wait.h"

/* A file of /proc as text; one of a thread's. 0, or -1, without a word. */
int ip_syscall_wait_read_text(const char *name, char *buffer, size_t size);
int ip_syscall_wait_read(pid_t pid, pid_t tid, const char *file, char *buffer, size_t size);
/* The number behind a name at the beginning of a line, in millionths where it has a fraction (six
 * digits). 0 or -1. */
int ip_syscall_wait_number(const char *text, const char *name, uint64_t *ret);
/* The CPU that a thread ran on last, and its state; -1: it is gone. */
long ip_syscall_wait_cpu(pid_t pid, pid_t tid, char *ret_state);

/* The clock may have stood still between an earlier reading and the sleep. */
bool ip_syscall_wait_is_of_use(const struct ip_cpu_clock *clock,
			       const struct ip_syscall_wait *wait);
/* What is known of a CPU's clock; NULL: nothing. */
struct ip_cpu_clock *ip_syscall_wait_clock(const struct ip_syscall_waits *s, long cpu);
/* A clock of a CPU said this before now. */
void ip_syscall_wait_note_clock(struct ip_syscall_waits *s, long cpu, uint64_t said,
				const struct ip_syscall_wait *wait);

/* Readings of the clocks of CPUs that threads were seen to sleep on, and of which none is known:
 * from whoever runs there. */
void ip_syscall_wait_read_runners(struct ip_syscall_waits *s);

#endif
