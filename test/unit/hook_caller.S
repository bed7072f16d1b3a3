/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls a hook of the runtime as its stub would, with every register set beforehand and read
 * afterwards (test_runtime_hooks.c).
 *
 *   hook_in, hook_out   rax rcx rdx rbx (rsp) rbp rsi rdi r8..r15, flags
 *   hook_stack          the stack pointer at the site
 *   hook_way            one of hook_by_call, hook_by_below, hook_by_push, hook_by_jump,
 *                        hook_by_return, hook_by_tail
 */
	.macro each op
	\op rax, 0
	\op rcx, 8
	\op rdx, 16
	\op rbx, 24
	\op rbp, 40
	\op rsi, 48
	\op rdi, 56
	\op r8, 64
	\op r9, 72
	\op r10, 80
	\op r11, 88
	\op r12, 96
	\op r13, 104
	\op r14, 112
	\op r15, 120
	.endm

	.macro load reg, at
	movq hook_in + \at(%rip), %\reg
	.endm

	.macro store reg, at
	movq %\reg, hook_out + \at(%rip)
	.endm

	.text
	.globl hook_call, hook_by_call, hook_by_below, hook_by_push, hook_by_jump, hook_by_return
	.globl hook_by_tail
	.type hook_call, @function
hook_call:
	pushq %rbx
	pushq %rbp
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, saved_stack(%rip)
	movl hook_mask(%rip), %eax
	xorl %edx, %edx
	movq hook_vectors_in(%rip), %rcx
	xrstor64 (%rcx)
	pushq 128 + hook_in(%rip)
	popfq
	movq hook_stack(%rip), %rsp
	each load
	jmp *hook_way(%rip)
hook_by_call:
	movl hook_number(%rip), %r11d
	call *hook_address(%rip)
	jmp done
hook_by_push:
	call push_number
	jmp done
push_number:
	pushq hook_number(%rip)
	jmp *hook_address(%rip)
	/* the number lies below the stack pointer, under the return address. For hook_by_return
	 * that is the function's own: it has been called, and stands at its return */
hook_by_below:
hook_by_return:
	call 1f
	jmp done
1:	pushq hook_number(%rip)
	leaq 8(%rsp), %rsp
	jmp *hook_address(%rip)
hook_by_tail:
	pushq hook_number(%rip)
	call *hook_address(%rip)
	leaq 8(%rsp), %rsp
	jmp done
hook_by_jump:
	leaq -128(%rsp), %rsp
	pushq hook_number(%rip)
	call *hook_address(%rip)
	leaq 136(%rsp), %rsp
done:
	each store
	movq %rsp, 32 + hook_out(%rip)
	movq saved_stack(%rip), %rsp
	pushfq
	popq 128 + hook_out(%rip)
	pushq $2
	popfq
	movl hook_mask(%rip), %eax
	xorl %edx, %edx
	movq hook_vectors_out(%rip), %rcx
	xsave64 (%rcx)
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbp
	popq %rbx
	ret
	.size hook_call, . - hook_call

	.local saved_stack
	.comm saved_stack, 8, 8
	.section .note.GNU-stack, "", @progbits
