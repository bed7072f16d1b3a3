/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a stopped thread.
 */
#ifndef IP_ARCH_REGS_H
#define IP_ARCH_REGS_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>
#include <x86intrin.h>

/* 0, or -1 where the thread is gone. */
static inline int ip_arch_pc(pid_t tid, uint64_t *ret)
{
	errno = 0;
	*ret = ptrace(PTRACE_PEEKUSER, tid, offsetof(struct user_regs_struct, rip), 0);
	return errno ? -1 : 0;
}

static inline uint64_t ip_arch_clock(void)
{
	return __rdtsc();
}

#endif
