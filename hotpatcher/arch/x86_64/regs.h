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
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <x86intrin.h>

#include "hotpatcher/arch/i386/regs.h"

/* Whether a system call that returns EINTR after any stop waits without a limit: such a call may simply start again. (Most
 * calls restart by themselves, see signal(7). One with a time limit would wait for all of it again: it is left alone.) */
static inline int ip_arch_waits_for_ever(const struct user_regs_struct *r)
{
	switch (r->orig_rax) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)r->r10 < 0;
	case SYS_epoll_pwait2:
	case SYS_semtimedop:
		return !r->r10;
	case SYS_rt_sigtimedwait:
		return !r->rdx;
	case SYS_io_getevents:
		return !r->r8;
	case SYS_semop:
		return 1;
	}
	return 0;
}

/* Reads the program counter of a stopped thread. interrupted: by our own INTERRUPT, not by a signal; a call that it
 * broke off is made to start again where that is exact: -ERESTARTNOHAND lets the kernel do it, unless a signal with a
 * handler comes first, which the program then sees as EINTR, as it would without us. 0, or -1 where the thread is gone. */
static inline int ip_arch_stopped(pid_t tid, int interrupted, uint64_t *ret_pc)
{
	const long restart_unless_handler = -514;
	struct user_regs_struct r;
	int endless;

	if (ptrace(PTRACE_GETREGS, tid, 0, &r) < 0)
		return -1;
	/* the results of 32-bit code count in 32 bits */
	endless = r.cs == IP_I386_CODE_SEGMENT
			  ? (int)r.orig_rax >= 0 && (int)r.rax == -EINTR && ip_i386_waits_for_ever(&r)
			  : (long)r.orig_rax >= 0 && (long)r.rax == -EINTR && ip_arch_waits_for_ever(&r);
	if (interrupted && endless)
		ptrace(PTRACE_POKEUSER, tid, offsetof(struct user_regs_struct, rax), restart_unless_handler);
	*ret_pc = r.rip;
	return 0;
}

static inline uint64_t ip_arch_clock(void)
{
	return __rdtsc();
}

#endif
