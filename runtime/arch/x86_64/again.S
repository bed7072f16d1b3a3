/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread goes on waiting whose system call a stop broke off (struct ip_again in common/rt_abi.h). It has been sent here by
 * the hotpatcher: behind one of the calls, with a result that makes the kernel start that call again, or, where a signal comes
 * first, return EINTR from it, as it would have without us.
 *
 * The thread's struct ip_again is on top of its stack, 128 bytes of its caller's red zone above. Its caller sees what the kernel
 * promises: nothing has changed but rax, rcx and r11. To unwinders this is a signal's frame: the caller goes on at the very
 * instruction, and was not left by a call.
 */
#include <sys/syscall.h>

#define FRAME	    320
#define PC	    0
#define FLAGS	    8
#define ARGUMENTS   16
#define TIME	    72
#define NUMBER	    88
#define REST	    96
#define PART	    152
#define ALL	    160
#define LIMIT_ERROR 168
#define TRIES	    176
#define POLL	    184
#define POLL_EVENTS 188

	.macro arguments from
	movq \from(%rsp), %rdi
	movq \from + 8(%rsp), %rsi
	movq \from + 16(%rsp), %rdx
	movq \from + 24(%rsp), %r10
	movq \from + 32(%rsp), %r8
	movq \from + 40(%rsp), %r9
	.endm

	.text
	.p2align 6
	.globl rt_again, rt_again_end, rt_again_call, rt_again_poll, rt_again_rest
	.hidden rt_again, rt_again_end, rt_again_call, rt_again_poll, rt_again_rest
	.type rt_again, @function
rt_again:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa rsp, FRAME
	.cfi_offset rip, PC - FRAME
	.cfi_offset rdi, ARGUMENTS - FRAME
	.cfi_offset rsi, ARGUMENTS + 8 - FRAME
	.cfi_offset rdx, ARGUMENTS + 16 - FRAME
	.cfi_offset r10, ARGUMENTS + 24 - FRAME
	.cfi_offset r8, ARGUMENTS + 32 - FRAME
	.cfi_offset r9, ARGUMENTS + 40 - FRAME
	/* the short form: one call, no flag changed */
.Lshort:
	syscall
rt_again_call:
	arguments ARGUMENTS
.Lback:
	movq PC(%rsp), %rcx
	.cfi_remember_state
	.cfi_register rip, rcx
	.cfi_same_value rdi
	.cfi_same_value rsi
	.cfi_same_value rdx
	.cfi_same_value r10
	.cfi_same_value r8
	.cfi_same_value r9
	leaq FRAME(%rsp), %rsp
	.cfi_def_cfa_offset 0
	notrack jmp *%rcx
	.cfi_restore_state

	/* the long form */
.Lwait:
	cmpw $0, POLL_EVENTS(%rsp)
	je .Lrest
	leaq POLL(%rsp), %rdi
	movl $1, %esi
	leaq TIME(%rsp), %rdx /* the kernel keeps what is left in it */
	xorl %r10d, %r10d
	movl $8, %r8d
	movl $SYS_ppoll, %eax
	syscall
rt_again_poll:
	testq %rax, %rax
	js .Lerror
	je .Llimit
.Lrest:
	arguments REST + 8
	movq REST(%rsp), %rax
	syscall
rt_again_rest:
	cmpq $-11, %rax /* EAGAIN */
	je .Lnothing
	testq %rax, %rax
	js .Lerror
	addq %rax, PART(%rsp)
	testq %rax, %rax
	je .Ldone
	cmpq $0, ALL(%rsp)
	je .Ldone
	addq %rax, REST + 16(%rsp)
	subq %rax, REST + 24(%rsp)
	jne .Lwait
.Ldone:
	movq PART(%rsp), %rax
	jmp .Lout
.Lnothing:
	cmpw $0, POLL_EVENTS(%rsp)
	je .Lerror
	decq TRIES(%rsp)
	jne .Lwait
	cmpq $0, PART(%rsp)
	jne .Ldone
	arguments ARGUMENTS
	movq NUMBER(%rsp), %rax
	jmp .Lshort
.Llimit:
	movq LIMIT_ERROR(%rsp), %rax
.Lerror:
	cmpq $0, PART(%rsp)
	cmovneq PART(%rsp), %rax
.Lout:
	arguments ARGUMENTS
	pushq FLAGS(%rsp)
	.cfi_adjust_cfa_offset 8
	popfq
	.cfi_adjust_cfa_offset -8
	jmp .Lback
rt_again_end:
	.cfi_endproc
	.size rt_again, . - rt_again

	.section .note.GNU-stack, "", @progbits
