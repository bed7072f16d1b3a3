/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs. It is code of the runtime between a beginning and an end
 * that are the same for all users (hotpatcher/inject/runtime_wake.h describes the numbered steps).
 * The hotpatcher compares this code byte by byte with its own copy. It leaves out the bytes in
 * front of the numbered labels: they are distances.
 */
/* clang-format off */
#include <sys/syscall.h>

#include "common/abi/own_call.h"

#define SIG_SETMASK 2
/* All signals except ILL, TRAP, BUS, FPE, SEGV and SYS: this code itself can cause those, so they
 * must not be delayed. */
#define SIGNALS_ALL (~((1 << 3) | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 10) | (1 << 30)))

	/*
	 * The thread enters at `name` with the stack pointer at `block`, a struct ip_wake. Every
	 * register is free. The thread calls `function` and returns to where it was. The code uses
	 * general registers only: vector and x87 state do not change.
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
	/* Step 6: no signal handler runs on this stack, even if the tracer has not masked the
	 * signals. */
	movl $SYS_rt_sigprocmask, %eax
	movl $SIG_SETMASK, %edi
	leaq \name\()_signals(%rip), %rsi
.L\name\()_1:
	xorl %edx, %edx
	movl $8, %r10d
	movabsq $(IP_OWN_CALL << 32), %r9
	syscall
	/* Step 7 */
	call \function
.L\name\()_2:
	/* Step 8: a tracer finds the thread in this system call and takes the thread back from
	 * here. Without a tracer the call soon ends. This call leaves no state for restart_syscall:
	 * that state may be the thread's own. */
	movl $SYS_rt_sigtimedwait, %eax
	leaq \name\()_none(%rip), %rdi
.L\name\()_3:
	xorl %esi, %esi
	leaq \name\()_while(%rip), %rdx
.L\name\()_4:
	movl $8, %r10d
	movabsq $(IP_OWN_CALL << 32), %r9
	syscall
	/* Step 10: no tracer has taken the thread back, so the thread returns by itself. */
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
