/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What syscall_wait.c and syscall_wait_runners.c share: reading what the kernel tells of a thread,
 * and the clocks of CPUs.
 */
#ifndef IP_SYSCALL_WAIT_PRIVATE_H
#define IP_SYSCALL_WAIT_PRIVATE_H

#include "hotpatcher/ptrace/syscall_wait.h"

/* Reads a file of /proc as text; the second function reads a file of one thread. 0, or -1 without
 * an error message. */
int ip_syscall_wait_read_text(const char *name, char *buffer, size_t size);
int ip_syscall_wait_read(pid_t pid, pid_t tid, const char *file, char *buffer, size_t size);
/* Finds the number behind a name at the beginning of a line. If the number has a fraction (six
 * digits), *ret is in millionths. 0 or -1. */
int ip_syscall_wait_number(const char *text, const char *name, uint64_t *ret);
/* The CPU on which a thread ran last, and its state; -1: the thread is gone. */
long ip_syscall_wait_cpu(pid_t pid, pid_t tid, char *ret_state);

/* Whether the reading serves for this wait: it is of the same CPU, and not from before the sleep.
 * The clock may have stood still between an earlier reading and the sleep. */
bool ip_syscall_wait_is_of_use(const struct ip_cpu_clock *clock,
			       const struct ip_syscall_wait *wait);
/* The reading of a CPU's clock; NULL: there is none. */
struct ip_cpu_clock *ip_syscall_wait_clock(const struct ip_syscall_waits *s, long cpu);
/* Notes a reading: the clock of a CPU said this before now. */
void ip_syscall_wait_note_clock(struct ip_syscall_waits *s, long cpu, uint64_t said,
				const struct ip_syscall_wait *wait);

/* Takes readings of the clocks of CPUs on which threads were seen to sleep and of which there is no
 * reading yet. They come from threads that run there. */
void ip_syscall_wait_read_runners(struct ip_syscall_waits *s);

#endif
