/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers of a stopped thread. It runs 64-bit code, or 32-bit code, whose registers the kernel
 * shows in the layout of x86-64, with the system call numbers and arguments of i386.
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

/* The system call that a stopped thread returns from. */
struct ip_arch_syscall {
	struct user_regs_struct regs;
	bool narrow; /* the thread runs 32-bit code */
	long number; /* -1: it returns from none */
	long result; /* the call's result, or a code by which the kernel will start it again */
	uint64_t arguments[6];
	uint64_t pc, sp;
	struct ip_wait wait;
};

/* Reads the call. Returns 0, or -1 if the thread is gone. */
static inline int ip_arch_syscall(pid_t tid, struct ip_arch_syscall *ret)
{
	struct user_regs_struct *r = &ret->regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, r) < 0)
		return -1;
	ret->narrow = r->cs == IP_I386_CODE_SEGMENT;
	/* a result of 32-bit code is a 32-bit number */
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

/* The registers by their DWARF numbers, the program counter behind the general ones: 17, or of
 * 32-bit code 9. */
static inline void ip_arch_dwarf_registers(const struct ip_arch_syscall *call, uint64_t ret[17])
{
	const struct user_regs_struct *r = &call->regs;
	const uint64_t wide[] = {r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi,
				 r->rbp, r->rsp, r->r8,	 r->r9,	 r->r10, r->r11,
				 r->r12, r->r13, r->r14, r->r15, r->rip};
	const uint64_t narrow[17] = {r->rax, r->rcx, r->rdx, r->rbx, r->rsp,
				     r->rbp, r->rsi, r->rdi, r->rip};

	for (size_t i = 0; i < 17; i++)
		ret[i] = call->narrow ? (uint32_t)narrow[i] : wide[i];
}

/* Returns the stack pointer of a stopped thread; 0: the thread is gone. */
static inline uint64_t ip_arch_stack_pointer(pid_t tid)
{
	struct user_regs_struct regs;

	if (ptrace(PTRACE_GETREGS, tid, 0, &regs) < 0)
		return 0;
	return regs.cs == IP_I386_CODE_SEGMENT ? (uint32_t)regs.rsp : regs.rsp;
}

/* Makes the kernel start again the system call that a stopped thread returns from. The call itself
 * could have asked for this. Only the register with the call's result is written. So whichever
 * thread it is, it gets no value that another process has chosen. */
static inline void ip_arch_restart_plainly(pid_t tid)
{
	ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rax),
	       IP_ARCH_RESTART_UNLESS_HANDLER);
}

/* Returns whether the number of the thread's system call is one of this table. 64-bit code must
 * have made the call by `syscall`. code: the two bytes before the thread's program counter. */
static inline bool ip_arch_is_own_call(const struct ip_arch_syscall *call, const uint8_t *code)
{
	return call->narrow || (code[0] == 0x0f && code[1] == 0x05);
}

/* Sets the registers so that the call is made again. behind: the address after its instruction. */
static inline void ip_arch_prepare(struct ip_arch_syscall *call, const uint64_t *arguments,
				   long number, uint64_t behind)
{
	if (call->narrow)
		ip_i386_set_arguments(&call->regs, arguments);
	else
		ip_arch_set_arguments(&call->regs, arguments);
	ip_arch_do_restart(&call->regs, number, behind);
	if (!call->narrow)
		call->regs.rcx = behind; /* as the processor sets it */
}

/* Returns the components of vector and x87 state that the processor and the kernel let programs use
 * (bits of XCR0), as far as the runtime preserves them (user.S); 0: there is no XSAVE. */
static inline uint32_t ip_arch_vector_state(void)
{
	uint32_t eax, ebx, ecx, edx;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1 << 27))
		return 0;
	__asm__ volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
	return eax & 0xe7;
}

#endif
