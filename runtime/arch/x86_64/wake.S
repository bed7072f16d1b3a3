/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a static program carries besides the runtime: the code that a borrowed thread runs, the empty hooks of
 * -finstrument-functions, and the note that tells where the anchor is.
 */
#include <sys/syscall.h>

#define SIG_SETMASK 2
/* all but ILL, TRAP, BUS, FPE, SEGV, SYS: those are our own, and must not be put off */
#define SIGNALS_ALL (~((1 << 3) | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 10) | (1 << 30)))

	/*
	 * The steps of hotpatcher/wake.c that the thread does by itself. It comes with the stack pointer at rt_wake_block; every
	 * register is free. General registers only: vector and x87 state stay as they are.
	 */
	.text
	.p2align 4
	.globl rt_wake, rt_wake_end
	.hidden rt_wake, rt_wake_end
	.type rt_wake, @function
rt_wake:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_undefined rip
	/* 6: no handler runs on this stack, even if nobody has masked signals for us */
	movl $SYS_rt_sigprocmask, %eax
	movl $SIG_SETMASK, %edi
	leaq all_signals(%rip), %rsi
	xorl %edx, %edx
	movl $8, %r10d
	syscall
	/* 7 */
	call rt_wake_up
	/* 8: who traces us sees this call, and takes us back from here; else it does nothing */
	movl $SYS_getpid, %eax
	syscall
	/* 10: nobody does, so we go by ourselves */
	movl $SYS_rt_sigprocmask, %eax
	movl $SIG_SETMASK, %edi
	leaq 160 + rt_wake_block(%rip), %rsi
	xorl %edx, %edx
	movl $8, %r10d
	syscall
	leaq rt_wake_block(%rip), %rsp
	popq %rax
	popq %rbx
	popq %rcx
	popq %rdx
	popq %rsi
	popq %rdi
	popq %rbp
	popq %r8
	popq %r9
	popq %r10
	popq %r11
	popq %r12
	popq %r13
	popq %r14
	popq %r15
	iretq
rt_wake_end:
	.cfi_endproc
	.size rt_wake, . - rt_wake

	/* libc's are one function under two names. Ours are two, so that calls can be told apart; weak, so that a program's own
	 * tracer comes first. */
	.irp name, __cyg_profile_func_enter, __cyg_profile_func_exit
	.p2align 4
	.weak \name
	.type \name, @function
\name:
	.cfi_startproc
	endbr64
	ret
	.cfi_endproc
	.size \name, . - \name
	.endr

	.section .rodata
	.p2align 3
all_signals:
	.quad SIGNALS_ALL

	/* The block lies at the top of its own stack: a signal that comes while it is taken off finds room below. */
	.bss
	.p2align 6
	.skip 262144
	.globl rt_wake_block
	.hidden rt_wake_block
rt_wake_block:
	.skip 256

	.section .note.iprobe, "a", @note
	.p2align 2
	.long 7, 16, 2
	.asciz "iprobe"
	.p2align 2
	.quad iprobe_rt_anchor - .
	.quad 16

	.section .note.GNU-stack, "", @progbits
