/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a thread continues to wait in a system call that a stop interrupted (struct ip_restart_slot
 * in common/abi/restart.h). The hotpatcher has set the thread's program counter behind one of the
 * calls here, with a result that makes the kernel start that call again. If a signal comes first,
 * the kernel returns EINTR from the call, as it would have done without the stop.
 *
 * All data that the code needs lies in a slot of the runtime's memory, one for each such thread.
 * The code neither reads nor writes the program's stack, and does not change the stack pointer: a
 * coroutine's stack may have no room. Each slot has calls of its own, so the address of the call
 * tells the slot: the processor leaves the address behind the call in rcx. So during the wait all
 * registers are the program's, except those of a changed argument.
 *
 * The caller sees what the kernel promises: only rax, rcx and r11 have changed. For unwinders this
 * is the frame of a signal: the caller continues at exactly that instruction, and no call has left
 * it. The slot is given back last, when nothing in it is needed any more.
 */
#include <sys/syscall.h>

#include "common/abi/restart_slots.h"

/* struct ip_restart_slot */
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
#define CALLS	    192
#define OWNER	    200
#define RESULT	    216

	.macro arguments from
	movq \from(%rcx), %rdi
	movq \from + 8(%rcx), %rsi
	movq \from + 16(%rcx), %rdx
	movq \from + 24(%rcx), %r10
	movq \from + 32(%rcx), %r8
	movq \from + 40(%rcx), %r9
	.endm

	/* goes from a slot's calls to the slot; does not change flags */
	.macro find_slot
	movq IP_RESTART_TO_SLOT(%rcx), %r11
	leaq (%rcx,%r11), %rcx
	.endm

	.text
	.p2align 6
	.globl rt_restart, rt_restart_common, rt_restart_end
	.hidden rt_restart, rt_restart_common, rt_restart_end
	.type rt_restart, @function
rt_restart:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa rsp, 0
	/* rip lies at C + *(C + IP_RESTART_TO_SLOT), where C is rcx & -IP_RESTART_CALLS: breg2 0,
	 * const1s -64, and, dup, plus_uconst 48, deref, plus */
	.cfi_escape 0x10, 16, 10, 0x72, 0, 0x09, 0xc0, 0x1a, 0x12, 0x23, 48, 0x06, 0x22
.Lslot = 0
	.rept IP_RESTART_SLOTS
0:	syscall
	leaq 0b(%rip), %rcx
	.byte 0xe9 /* jmp, always in its long form */
	.long .Lcall - . - 4
	.p2align 4, 0xcc
	syscall
	leaq 0b(%rip), %rcx
	.byte 0xe9
	.long .Lpoll - . - 4
	.p2align 4, 0xcc
	syscall
	leaq 0b(%rip), %rcx
	.byte 0xe9
	.long .Lrest - . - 4
	.p2align 4, 0xcc
	.quad rt_restart_slots + .Lslot * IP_RESTART_SLOT - 0b
	.p2align 6, 0xcc
.Lslot = .Lslot + 1
	.endr

	/* the short form: one call; it changes no flag */
rt_restart_common:
.Lcall:
	find_slot
	.cfi_escape 0x10, 16, 2, 0x72, 0 /* rip lies where rcx points */
.Lback:
	arguments ARGUMENTS
	movq PC(%rcx), %r11
	.cfi_remember_state
	.cfi_register rip, r11
	movq $0, OWNER(%rcx)
	movq %r11, %rcx
	notrack jmp *%rcx
	.cfi_restore_state

	/* the long form: poll, then transfer */
.Lwait:
	cmpw $0, POLL_EVENTS(%rcx)
	je .Lmove
	leaq POLL(%rcx), %rdi
	movl $1, %esi
	leaq TIME(%rcx), %rdx /* the kernel writes the time that is left into it */
	xorl %r10d, %r10d
	movl $8, %r8d
	movl $SYS_ppoll, %eax
	movq CALLS(%rcx), %rcx
	leaq IP_RESTART_POLL(%rcx), %r11
	.cfi_escape 0x10, 16, 10, 0x72, 0, 0x09, 0xc0, 0x1a, 0x12, 0x23, 48, 0x06, 0x22
	notrack jmp *%r11
.Lpoll:
	find_slot
	.cfi_escape 0x10, 16, 2, 0x72, 0
	testq %rax, %rax
	js .Lerror
	je .Llimit
.Lmove:
	arguments REST + 8
	movq REST(%rcx), %rax
	movq CALLS(%rcx), %rcx
	leaq IP_RESTART_REST(%rcx), %r11
	.cfi_escape 0x10, 16, 10, 0x72, 0, 0x09, 0xc0, 0x1a, 0x12, 0x23, 48, 0x06, 0x22
	notrack jmp *%r11
.Lrest:
	find_slot
	.cfi_escape 0x10, 16, 2, 0x72, 0
	cmpq $-11, %rax /* EAGAIN */
	je .Lnothing
	testq %rax, %rax
	js .Lerror
	addq %rax, PART(%rcx)
	testq %rax, %rax
	je .Ldone
	cmpq $0, ALL(%rcx)
	je .Ldone
	addq %rax, REST + 16(%rcx)
	subq %rax, REST + 24(%rcx)
	jne .Lwait
.Ldone:
	movq PART(%rcx), %rax
	jmp .Lout
.Lnothing:
	cmpw $0, POLL_EVENTS(%rcx)
	je .Lerror
	decq TRIES(%rcx)
	jne .Lwait
	cmpq $0, PART(%rcx)
	jne .Ldone
	arguments ARGUMENTS
	movq NUMBER(%rcx), %rax
	movq CALLS(%rcx), %rcx
	.cfi_escape 0x10, 16, 10, 0x72, 0, 0x09, 0xc0, 0x1a, 0x12, 0x23, 48, 0x06, 0x22
	notrack jmp *%rcx
	.cfi_escape 0x10, 16, 2, 0x72, 0
.Llimit:
	movq LIMIT_ERROR(%rcx), %rax
.Lerror:
	cmpq $0, PART(%rcx)
	cmovneq PART(%rcx), %rax
	/* Restores the arithmetic flags without a stack: first the overflow flag, by an addition,
	 * then the others. */
.Lout:
	movq %rax, RESULT(%rcx)
	movq FLAGS(%rcx), %rax
	movl %eax, %r11d
	shrl $11, %r11d
	andl $1, %r11d
	movb %al, %ah
	movb %r11b, %al
	addb $0x7f, %al
	sahf
	movq RESULT(%rcx), %rax
	jmp .Lback
rt_restart_end:
	.cfi_endproc
	.size rt_restart, . - rt_restart

	.bss
	.p2align 6
	.globl rt_restart_slots
	.hidden rt_restart_slots
rt_restart_slots:
	.skip IP_RESTART_SLOTS * IP_RESTART_SLOT

	.section .note.GNU-stack, "", @progbits
