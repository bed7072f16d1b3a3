/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks of i386. Stubs (common/arch/i386/site.c) jump to them, with the number in eax and the
 * site's return address on top of the stack. Sites are where the compiler expects a call
 * (IP_REGS_CALL): eax, ecx, edx and the flags are free. The C code that the hooks call preserves
 * all other registers.
 *
 * The recorded stack pointer is the site's before its call. At a site of form RETURN, the
 * function's own return address is on top of the stack: there the caller's stack pointer before its
 * call is recorded. Both are computed by the same sum.
 */
	.macro hook name, kind
	.p2align 5
	.type \name, @function
\name:
	.cfi_startproc
	leal 4(%esp), %ecx
	cld
	pushl $0
	.cfi_adjust_cfa_offset 4
	pushl %ecx
	.cfi_adjust_cfa_offset 4
	pushl $\kind
	.cfi_adjust_cfa_offset 4
	pushl %eax
	.cfi_adjust_cfa_offset 4
	call rt_record
	leal 16(%esp), %esp
	.cfi_adjust_cfa_offset -16
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	.text
	.globl rt_hooks_base
	.hidden rt_hooks_base
rt_hooks_base:
	hook hook_entry, 1
	hook hook_exit, 2
	hook hook_tail_exit, 3
	hook hook_point, 4

	/* Offsets from rt_hooks_base. No stub of i386 passes other registers or calls a hook. The
	 * rest of the table exists because the ABI has it. */
	.section .rodata
	.p2align 3
	.globl rt_hooks, rt_jump_hooks
	.hidden rt_hooks, rt_jump_hooks
rt_hooks:
	.irp name, hook_entry, hook_exit, hook_tail_exit, hook_point
	.rept 4
	.long \name - rt_hooks_base
	.endr
	.endr
rt_jump_hooks:
	.irp name, hook_entry, hook_exit, hook_tail_exit, hook_point
	.long \name - rt_hooks_base
	.endr

	/* values are not recorded on i386 */
	.globl rt_payload_base, rt_payload_hooks
	.hidden rt_payload_base, rt_payload_hooks
	.set rt_payload_base, rt_hooks_base
rt_payload_hooks:
	.zero 32

	/* nor are there exits that are returns or jumps, nor PLT entries */
	.globl rt_return_hook, rt_payload_return_hook, rt_tail_hook, rt_plt_hook
	.hidden rt_return_hook, rt_payload_return_hook, rt_tail_hook, rt_plt_hook
rt_return_hook:
	.long 0
rt_tail_hook:
	.long 0
rt_plt_hook:
	.long 0
rt_payload_return_hook:
	.long 0
	.section .note.GNU-stack, "", @progbits
