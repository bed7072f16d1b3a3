/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs to make room for the runtime (hotpatcher/inject/inject.h).
 * It is copied into the target. It needs no stack, and writes no memory: the stack pointer remains
 * the thread's own, so a signal handler may run at any of its instructions. None of its
 * instructions changes a flag. The data that it reads, and the registers for the return to the
 * thread's own code, stand behind it.
 */
#include <sys/syscall.h>

#include "common/abi/own_call.h"

#define PROT_READ_EXEC	 5
#define PROT_READ_WRITE	 3
#define MAP_PRIVATE_ANONYMOUS_NORESERVE 0x4022
#define PR_SET_VMA	 0x53564d41
#define PR_SET_VMA_ANON_NAME 0

	.section .rodata
	.p2align 4
	.globl ip_inject_code
	.hidden ip_inject_code
	.globl ip_inject_code_end
	.hidden ip_inject_code_end
ip_inject_code: /* struct ip_inject_header (hotpatcher/inject/inject_code.h) */
	.ascii "\xcc\xccinject\0\0"
	.long ip_inject_code_end - ip_inject_code
	.word block - ip_inject_code
	.globl ip_inject_code_start
	.hidden ip_inject_code_start
ip_inject_code_start:
	/* r12 becomes the address, or an error. */
	movl $SYS_mmap, %eax
	movl $0, %edi
	movq size(%rip), %rsi
	movl $PROT_READ_EXEC, %edx
	movl $MAP_PRIVATE_ANONYMOUS_NORESERVE, %r10d
	movabsq $(IP_OWN_CALL << 32 | 0xffffffff), %r8 /* -1, marked */
	movl $0, %r9d
	syscall
	movq %rax, %r12
	/* r13 becomes the result. If no memory was mapped, r12 is no page's address, and the kernel
	 * refuses both calls. */
	.globl ip_inject_code_resume
	.hidden ip_inject_code_resume
ip_inject_code_resume:
	movl $SYS_mprotect, %eax
	movq data(%rip), %rdi
	leaq (%r12, %rdi), %rdi
	movq data_size(%rip), %rsi
	movl $PROT_READ_WRITE, %edx
	movabsq $(IP_OWN_CALL << 32), %r9
	syscall
	movq %rax, %r13
	/* The name of the mapping, for people and for iprobe. Kernels before 5.17 do not have this
	 * call. */
	movl $SYS_prctl, %eax
	movl $PR_SET_VMA, %edi
	movl $PR_SET_VMA_ANON_NAME, %esi
	movq %r12, %rdx
	movq size(%rip), %r10
	leaq name(%rip), %r8
	syscall
	/* The tracer finds the thread in this call, and takes it back from here. Without a tracer
	 * the call ends soon. */
	movl $SYS_rt_sigtimedwait, %eax
	leaq no_signals(%rip), %rdi
	movl $0, %esi
	leaq a_while(%rip), %rdx
	movl $8, %r10d
	syscall
	.globl ip_inject_code_back
	.hidden ip_inject_code_back
ip_inject_code_back:
	/* No tracer takes the thread back, so it returns to its own code by itself. The stack
	 * pointer and the flags are as they were. */
	.macro back reg, at
	movq block + 8 * \at(%rip), %\reg
	.endm
	back rax, 0
	back rbx, 1
	back rcx, 2
	back rdx, 3
	back rsi, 4
	back rdi, 5
	back rbp, 6
	back r8, 7
	back r9, 8
	back r10, 9
	back r11, 10
	back r12, 11
	back r13, 12
	back r14, 13
	back r15, 14
	jmpq *block + 8 * 15(%rip)
name:
	.asciz "libiprobe-rt.so"
	.p2align 3
no_signals:
	.quad 0
a_while:
	.quad 0, 100000000
	.globl ip_inject_code_arguments
	.hidden ip_inject_code_arguments
ip_inject_code_arguments:
size:
	.quad 0
data:
	.quad 0
data_size:
	.quad 0
block:
	.skip 8 * 22 /* struct ip_wake */
ip_inject_code_end:
	.section .note.GNU-stack, "", @progbits
