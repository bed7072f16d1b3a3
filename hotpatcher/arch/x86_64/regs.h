/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a stopped thread, of 64-bit code or of 32-bit code (which shows in the layout of
 * x86-64, with the numbers and arguments of i386).
 */
#ifndef IP_X86_64_REGS_H
#define IP_X86_64_REGS_H

#include <cpuid.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#include "hotpatcher/arch/i386/waits.h"
#include "hotpatcher/arch/x86_64/waits.h"

/* The system call that a stopped thread comes from. */
struct ip_arch_syscall {
	struct user_regs_struct regs;
	bool narrow; /* 32-bit code */
	long number; /* -1: it comes from none */
	long result; /* of the call, or a code by which the kernel means to start it again */
	uint64_t arguments[6];
	uint64_t pc, sp;
	struct ip_wait wait;
};

/* 0, or -1 where the thread is gone. */
static inline int ip_arch_syscall(pid_t tid, struct ip_arch_syscall *ret)
{
	struct user_regs_struct *r = &ret->regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, r) < 0)
		return -1;
	ret->narrow = r->cs == IP_I386_CODE_SEGMENT;
	/* the results of 32-bit code count in 32 bits */
	ret->number = ret->narrow ? (int32_t)r->orig_rax : (long)r->orig_rax;
	ret->result = ret->narrow ? (int32_t)r->rax : (long)r->rax;
	ret->pc = ret->narrow ? (uint32_t)r->rip : r->rip;
	ret->sp = ret->narrow ? (uint32_t)r->rsp : r->rsp;
	if (ret->narrow)
		ip_i386_arguments(r, ret->arguments);
	else
		ip_arch_arguments(r, ret->arguments);
	ret->wait = ret->narrow ? ip_i386_wait(ret->number, ret->arguments)
				: ip_arch_wait(ret->number, ret->arguments);
	return 0;
}

/* Of a stopped thread; 0: it is gone. */
static inline uint64_t ip_arch_stack_pointer(pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) < 0)
		return 0;
	return regs.cs == IP_I386_CODE_SEGMENT ? (uint32_t)regs.rsp : regs.rsp;
}

/* Has the kernel start the call that a stopped thread comes from again, as the call itself could
 * have asked for. No register but the one that holds its result is written: whatever thread it is,
 * nothing that anybody else has chosen gets into it. */
static inline void ip_arch_restart_plainly(pid_t tid)
{
	ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rax),
	       IP_ARCH_RESTART_UNLESS_HANDLER);
}

/* The two bytes in front of the program counter of a thread that comes from a system call: of the
 * calls that this table numbers. */
static inline bool ip_arch_is_own_call(const struct ip_arch_syscall *call, const uint8_t *code)
{
	return call->narrow || (code[0] == 0x0f && code[1] == 0x05);
}

/* Sets the registers for the call to be done again, from behind it. */
static inline void ip_arch_prepare(struct ip_arch_syscall *call, const uint64_t *arguments,
				   long number, uint64_t behind)
{
	if (call->narrow)
		ip_i386_set_arguments(&call->regs, arguments);
	else
		ip_arch_set_arguments(&call->regs, arguments);
	ip_arch_do_restart(&call->regs, number, behind);
	if (!call->narrow)
		call->regs.rcx = behind; /* as the processor leaves it */
}

/* Components of vector and x87 state that processor and kernel let programs use (bits of XCR0),
 * as far as the runtime keeps them (user.S); 0: no XSAVE. */
static inline uint32_t ip_arch_vector_state(void)
{
	uint32_t eax, ebx, ecx, edx;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1 << 27))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	return eax & 0xe7;
}

#endif
