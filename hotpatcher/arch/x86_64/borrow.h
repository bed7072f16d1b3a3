/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a borrowed thread: when a thread may be borrowed, and how it returns to its own
 * code.
 */
#ifndef IP_X86_64_BORROW_H
#define IP_X86_64_BORROW_H

#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include "common/abi/borrow.h"
#include "hotpatcher/arch/x86_64/waits.h"

#define IP_ARCH_USER_CS	   0x33 /* 64-bit code */
#define IP_ARCH_OFD_SETLKW 38	/* F_OFD_SETLKW, which <fcntl.h> has with _GNU_SOURCE alone */

/* The values that the kernel leaves in rax of a call that it will start again (linux/errno.h). */
#define IP_ARCH_RESTARTSYS	     (-512)
#define IP_ARCH_RESTARTNOINTR	     (-513)
#define IP_ARCH_RESTARTNOHAND	     (-514)
#define IP_ARCH_RESTART_RESTARTBLOCK (-516)
/* restart_syscall: goes on with the rest of a time limit */
#define IP_ARCH_SYS_RESTART 219

/* Returns whether the system call waits in such a way that a stop can interrupt it without the
 * program noticing. Each of these calls starts again by itself, with what is left of its time
 * limit, or is made to start again (hotpatcher/ptrace/syscall_restart.h). Not among them: calls
 * whose limit begins anew, see ip_arch_call_renews(), and calls that may have done a part of their
 * work. */
static inline bool ip_arch_call_restarts(long number, const uint64_t *args)
{
	switch (number) {
	case SYS_read:
	case SYS_readv:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_poll:
	case SYS_select:
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_pause:
	case SYS_rt_sigsuspend:
	case SYS_accept:
	case SYS_accept4:
	case SYS_flock:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_mq_timedreceive:
	case SYS_mq_timedsend:
	/* the call that continues one with a time limit after an interruption */
	case SYS_restart_syscall:
		return true;
	case SYS_recvfrom:
		return !(args[3] & MSG_WAITALL);
	case SYS_recvmsg:
		return !(args[2] & MSG_WAITALL);
	case SYS_fcntl:
		return args[1] == F_SETLKW || args[1] == IP_ARCH_OFD_SETLKW;
	case SYS_futex:
		return (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ||
		       (args[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
	}
	return ip_arch_wait(number, args).limit == IP_WAIT_ENDLESS;
}

/* Returns whether the call waits with a time limit which begins anew if a stop interrupts the call
 * in a process that has no runtime yet. The call is never shorter than the program asked for, and
 * never returns EINTR. */
static inline bool ip_arch_call_renews(long number, const uint64_t *args)
{
	const enum ip_wait_limit limit = ip_arch_wait(number, args).limit;

	return !ip_arch_call_restarts(number, args) && limit > IP_WAIT_ENDLESS &&
	       limit < IP_WAIT_RECEIVE;
}

/* Returns where the set of signals lies that are blocked while the call waits; 0: the call waits
 * under the mask of its thread. *ret_indirect: a pointer to the set lies there. */
static inline uint64_t ip_arch_call_mask(long number, const uint64_t *args, bool *ret_indirect)
{
	*ret_indirect = number == SYS_pselect6 || number == SYS_io_pgetevents;
	switch (number) {
	case SYS_rt_sigsuspend:
		return args[0];
	case SYS_ppoll:
		return args[3];
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
		return args[4];
	case SYS_pselect6:
	case SYS_io_pgetevents:
		return args[5];
	}
	return 0;
}

/* Returns whether the thread was stopped in a system call (at its return, or before it starts
 * again), rather than between two instructions of its own. */
static inline bool ip_arch_in_call(const struct user_regs_struct *r)
{
	return (long)r->orig_rax >= 0;
}

/* Returns whether the call is one that waits and can be interrupted. */
static inline bool ip_arch_waits(const struct user_regs_struct *r)
{
	uint64_t args[6];

	ip_arch_arguments(r, args);
	return ip_arch_in_call(r) && ip_arch_call_restarts(r->orig_rax, args);
}

/* Returns whether the call is one that waits, and whose time limit begins anew. */
static inline bool ip_arch_renews(const struct user_regs_struct *r)
{
	uint64_t args[6];

	ip_arch_arguments(r, args);
	return ip_arch_in_call(r) && ip_arch_call_renews(r->orig_rax, args);
}

static inline bool ip_arch_will_restart(const struct user_regs_struct *r)
{
	return ip_arch_in_call(r) &&
	       ((long)r->rax == IP_ARCH_RESTARTSYS || (long)r->rax == IP_ARCH_RESTARTNOINTR ||
		(long)r->rax == IP_ARCH_RESTARTNOHAND ||
		(long)r->rax == IP_ARCH_RESTART_RESTARTBLOCK);
}

/* Makes the registers with which the thread goes on if it has to restore them by itself. If a
 * system call is to start again, they already have the values that the kernel would set for that.
 * The order of the registers is that of wake.S. */
static inline void ip_arch_way_back(const struct user_regs_struct *r, struct ip_wake *ret)
{
	uint64_t rax = r->rax, rip = r->rip;

	if (ip_arch_will_restart(r)) {
		rax = (long)r->rax == IP_ARCH_RESTART_RESTARTBLOCK ? IP_ARCH_SYS_RESTART
								   : r->orig_rax;
		rip -= 2; /* the length of the instruction `syscall` */
	}
	const uint64_t registers[15] = {rax,	r->rbx, r->rcx, r->rdx, r->rsi,
					r->rdi, r->rbp, r->r8,	r->r9,	r->r10,
					r->r11, r->r12, r->r13, r->r14, r->r15};
	const uint64_t frame[5] = {rip, r->cs, r->eflags, r->rsp, r->ss};

	memcpy(ret->registers, registers, sizeof(registers));
	memcpy(ret->frame, frame, sizeof(frame));
}

/* Sets the registers with which the thread starts to run code of the runtime. No system call is
 * started again. */
static inline void ip_arch_send(struct user_regs_struct *r, uint64_t code, uint64_t stack)
{
	const uint64_t direction_and_trap = 0x500;

	r->rip = code;
	r->rsp = stack;
	r->orig_rax = -1;
	r->rax = 0;
	r->eflags &= ~direction_and_trap;
}

/* Sets the registers with which the thread starts to run code that keeps the stack pointer and the
 * flags (inject.S). memory: the address that an earlier run of that code has mapped; 0: none. */
static inline void ip_arch_send_lightly(struct user_regs_struct *r, uint64_t code, uint64_t memory)
{
	r->rip = code;
	r->orig_rax = -1;
	r->rax = 0;
	r->r12 = memory;
	r->r13 = -1;
}

/* The address that the thread has mapped so far, or an error; 0: nothing yet. The second function
 * returns the result of making it writable. */
static inline uint64_t ip_arch_made(const struct user_regs_struct *r)
{
	return r->r12;
}

static inline int64_t ip_arch_made_writable(const struct user_regs_struct *r)
{
	return (int64_t)r->r13;
}

static inline uint64_t ip_arch_thread_pointer(const struct user_regs_struct *r)
{
	return r->fs_base;
}

/* Where C libraries keep a thread's id, as a distance from the thread pointer: glibc, musl, musl
 * before 1.2. */
static const uint16_t ip_arch_tid_places[] = {0x2d0, 0x30, 0x38};

/* Returns whether a line of /proc/PID/status says that the process has a shadow stack. A thread
 * that returns to its own code by itself ends with iretq. With a shadow stack, iretq looks there
 * for a return address that was never pushed. */
static inline bool ip_arch_tells_shadow_stack(const char *line)
{
	return !strncmp(line, "x86_Thread_features:", strlen("x86_Thread_features:")) &&
	       strstr(line, "shstk");
}

/* The system call in which the injected code waits until the tracer takes the thread back. */
#define IP_ARCH_LAST_CALL SYS_rt_sigtimedwait

static inline bool ip_arch_is_done(const struct user_regs_struct *r, uint64_t start, uint64_t end)
{
	return r->orig_rax == IP_ARCH_LAST_CALL && r->rip >= start && r->rip < end;
}

#endif
