/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks: where stubs (common/arch/x86_64/site.c) hand over. Each saves what may be live at its sites, lets rt_record()
 * write the record, and goes back to the site. The C behind it is compiled for general registers only, so vector, x87 and
 * MXCSR are never touched.
 *
 *   hook_KIND_REGS   jumped to; the site's return address on top of the stack, the number in r11d
 *   hook_KIND_all    jumped to; the number on top of the stack, the site's return address under it
 *   jump_KIND        called by a jump stub: return address, number, 128 bytes of red zone
 *
 * The stack pointer that is recorded is the site's; for a tail exit the caller's before its call: there the return address
 * of the function has been on top of the stack at the site, and in a site of form RETURN it is the only one.
 */
	.macro push reg
	pushq %\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endm

	.macro pop reg
	popq %\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endm

	.macro save
	push rax
	push rcx
	push rdx
	push rsi
	push rdi
	push r8
	push r9
	push r10
	.endm

	.macro restore
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rdx
	pop rcx
	pop rax
	.endm

	/* tail: bytes from the site's stack pointer to what is recorded */
	.macro hook name, kind, tail
	.p2align 5
	.type \name, @function
\name:
	.cfi_startproc
	endbr64
	save
	movl %r11d, %edi
	movl $\kind, %esi
	leaq 72 + \tail(%rsp), %rdx
	cld
	call rt_record
	restore
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro hook_all name, kind, tail
	.p2align 5
	.type \name, @function
\name:
	.cfi_startproc
	.cfi_def_cfa_offset 16
	endbr64
	pushfq
	.cfi_adjust_cfa_offset 8
	save
	push r11
	movl 80(%rsp), %edi
	movl $\kind, %esi
	leaq 96 + \tail(%rsp), %rdx
	cld
	call rt_record
	pop r11
	restore
	popfq
	.cfi_adjust_cfa_offset -8
	leaq 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	.macro hook_jump name, kind, tail
	.p2align 5
	.type \name, @function
\name:
	.cfi_startproc
	endbr64
	pushfq
	.cfi_adjust_cfa_offset 8
	save
	push r11
	movl 88(%rsp), %edi
	movl $\kind, %esi
	leaq 96 + 128 + \tail(%rsp), %rdx
	cld
	call rt_record
	pop r11
	restore
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	.text
	.globl rt_hooks_base
	.hidden rt_hooks_base
rt_hooks_base:
	hook hook_entry, 1, 0
	hook hook_exit, 2, 0
	hook hook_tail_exit, 3, 8
	hook hook_return_site, 3, 0
	hook hook_point, 4, 0
	hook_all hook_entry_all, 1, 0
	hook_all hook_exit_all, 2, 0
	hook_all hook_tail_exit_all, 3, 8
	hook_all hook_point_all, 4, 0
	hook_jump jump_entry, 1, 0
	hook_jump jump_exit, 2, 0
	hook_jump jump_tail_exit, 3, 8
	hook_jump jump_point, 4, 0

	/* position-independent: offsets from rt_hooks_base */
	.section .rodata
	.p2align 3
	.globl rt_hooks, rt_jump_hooks
	.hidden rt_hooks, rt_jump_hooks
rt_hooks:
	.irp name, hook_entry, hook_entry, hook_entry, hook_entry_all
	.long \name - rt_hooks_base
	.endr
	.irp name, hook_exit, hook_exit, hook_exit, hook_exit_all
	.long \name - rt_hooks_base
	.endr
	.irp name, hook_return_site, hook_tail_exit, hook_tail_exit, hook_tail_exit_all
	.long \name - rt_hooks_base
	.endr
	.irp name, hook_point, hook_point, hook_point, hook_point_all
	.long \name - rt_hooks_base
	.endr
rt_jump_hooks:
	.irp name, jump_entry, jump_exit, jump_tail_exit, jump_point
	.long \name - rt_hooks_base
	.endr
	.section .note.GNU-stack, "", @progbits
