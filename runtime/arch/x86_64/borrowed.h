/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a borrowed thread runs: code of the runtime between a beginning and an end that are the same
 * for all (hotpatcher/inject/runtime_wake.h tells the steps by their numbers). The hotpatcher
 * compares it byte by byte with its own, but for what stands in front of the numbered labels:
 * distances.
 */
/* clang-format off */
#include <sys/syscall.h>

#define SIG_SETMASK 2
/* all but ILL, TRAP, BUS, FPE, SEGV, SYS: those are our own, and must not be put off */
#define SIGNALS_ALL (~((1 << 3) | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 10) | (1 << 30)))

	/*
	 * The thread comes to `name` with the stack pointer at `block`, a struct ip_wake; every
	 * register is free. It calls `function` and goes back to where it was. General registers
	 * only: vector and x87 state stay as they are.
	 */
	.macro BORROWED name, block, function
	.text
	.p2align 4
	.globl \name, \name\()_end
	.hidden \name, \name\()_end
	.type \name, @function
\name:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_undefined rip
	/* 6: no handler runs on this stack, even if nobody has masked signals for us */
	movl $SYS_rt_sigprocmask, %eax
	movl $SIG_SETMASK, %edi
	leaq \name\()_signals(%rip), %rsi
.L\name\()_1:
	xorl %edx, %edx
	movl $8, %r10d
	syscall
	/* 7 */
	call \function
.L\name\()_2:
	/* 8: who traces us finds us in this call, and takes us back from here; else it is over
	 * soon. It is none of those that leave something behind for restart_syscall: that may be
	 * the thread's own. */
	movl $SYS_rt_sigtimedwait, %eax
	leaq \name\()_none(%rip), %rdi
.L\name\()_3:
	xorl %esi, %esi
	leaq \name\()_while(%rip), %rdx
.L\name\()_4:
	movl $8, %r10d
	syscall
	/* 10: nobody does, so we go by ourselves */
	movl $SYS_rt_sigprocmask, %eax
	movl $SIG_SETMASK, %edi
	leaq 160 + \block(%rip), %rsi
.L\name\()_5:
	xorl %edx, %edx
	movl $8, %r10d
	syscall
	leaq \block(%rip), %rsp
.L\name\()_6:
	.irp register, rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15
	popq %\register
	.endr
	iretq
\name\()_end:
	.cfi_endproc
	.size \name, . - \name

	.section .rodata
	.p2align 3
\name\()_signals:
	.quad SIGNALS_ALL
\name\()_none:
	.quad 0
\name\()_while:
	.quad 0, 100000000
	.endm
