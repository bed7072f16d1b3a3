/* SPDX-License-Identifier: Apache-2.0 */
/*
 * void rt_user_call(uint64_t function, const struct iprobe_call *call, uint32_t mask)
 *
 * Calls compiled code that uses vector and x87 registers as it likes. The state that this code may
 * change is saved on the stack meanwhile: by XSAVE the state components of mask (x87, SSE, AVX,
 * AVX-512: bits of XCR0); by FXSAVE if mask is 0. The code finds the registers in the state that
 * the ABI promises at a call. Its stack is aligned. The caller of this function saves the general
 * registers.
 */
#define STATE 2752 /* bytes of these components in the standard format, and more */

	.text
	.p2align 5
	.globl rt_user_call
	.hidden rt_user_call
	.type rt_user_call, @function
rt_user_call:
	.cfi_startproc
	pushq %rbp
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbp, 0
	movq %rsp, %rbp
	.cfi_def_cfa_register rbp
	pushq %rbx
	.cfi_rel_offset rbx, -8
	pushfq
	movl %edx, %ebx
	leaq -STATE(%rsp), %rsp
	andq $-64, %rsp
	testl %ebx, %ebx
	jz 1f
	xorl %eax, %eax
	.irp at, 512, 520, 528, 536, 544, 552, 560, 568
	movq %rax, \at(%rsp)
	.endr
	movl %ebx, %eax
	xorl %edx, %edx
	xsave64 (%rsp)
	jmp 2f
1:	fxsave64 (%rsp)
	/* compilers rely on a clear alignment-check flag and a clear direction flag */
2:	pushfq
	andl $~0x40400, (%rsp)
	popfq
	fninit
	pushq $0x1f80
	ldmxcsr (%rsp)
	leaq 8(%rsp), %rsp
	movq %rdi, %rax
	movq %rsi, %rdi
	call *%rax
	testl %ebx, %ebx
	jz 3f
	movl %ebx, %eax
	xorl %edx, %edx
	xrstor64 (%rsp)
	jmp 4f
3:	fxrstor64 (%rsp)
4:	leaq -16(%rbp), %rsp
	popfq
	popq %rbx
	.cfi_restore rbx
	popq %rbp
	.cfi_def_cfa rsp, 8
	ret
	.cfi_endproc
	.size rt_user_call, . - rt_user_call
	.section .note.GNU-stack, "", @progbits
