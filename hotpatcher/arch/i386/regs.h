/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a stopped thread that runs 32-bit code, as a 64-bit tracer sees them: in the layout of x86-64, the program counter
 * in rip. System calls have the numbers of i386, and arguments in ebx, ecx, edx, esi, edi, ebp.
 */
#ifndef IP_ARCH_I386_REGS_H
#define IP_ARCH_I386_REGS_H

#include <stdint.h>
#include <sys/user.h>

/* The code segment of 32-bit programs (asm/segment.h: __USER32_CS). */
#define IP_I386_CODE_SEGMENT 0x23

/* asm/unistd_32.h, which a 64-bit program cannot include beside its own */
enum {
	IP_I386_IPC = 117,
	IP_I386_RT_SIGTIMEDWAIT = 177,
	IP_I386_IO_GETEVENTS = 247,
	IP_I386_EPOLL_WAIT = 256,
	IP_I386_EPOLL_PWAIT = 319,
	IP_I386_SEMTIMEDOP_TIME64 = 420,
	IP_I386_RT_SIGTIMEDWAIT_TIME64 = 421,
	IP_I386_EPOLL_PWAIT2 = 441,
	/* first argument of ipc (linux/ipc.h) */
	IP_I386_SEMOP = 1,
	IP_I386_SEMTIMEDOP = 4,
};

/* As ip_arch_waits_for_ever(). */
static inline int ip_i386_waits_for_ever(const struct user_regs_struct *r)
{
	uint32_t ebx = r->rbx, edx = r->rdx, esi = r->rsi, edi = r->rdi;

	switch ((uint32_t)r->orig_rax) {
	case IP_I386_EPOLL_WAIT:
	case IP_I386_EPOLL_PWAIT:
		return (int32_t)esi < 0;
	case IP_I386_EPOLL_PWAIT2:
	case IP_I386_SEMTIMEDOP_TIME64:
		return !esi;
	case IP_I386_RT_SIGTIMEDWAIT:
	case IP_I386_RT_SIGTIMEDWAIT_TIME64:
		return !edx;
	case IP_I386_IO_GETEVENTS:
		return !edi;
	case IP_I386_IPC:
		/* the last of its six arguments is the time limit of semtimedop */
		return (ebx & 0xffff) == IP_I386_SEMOP || ((ebx & 0xffff) == IP_I386_SEMTIMEDOP && !(uint32_t)r->rbp);
	}
	return 0;
}

#endif
