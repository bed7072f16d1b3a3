/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of sites whose values are recorded. A hook stores all registers in a frame (struct rt_frame
 * in runtime/payload.h), where rt_record_values() reads them. It restores what the C code may
 * change, and the flags. Of the vector registers it stores the low halves, which does not change
 * the registers.
 *
 *   payload_KIND        jumped to by a stub: payload number, the site's return address
 *   payload_jump_KIND   called by a jump stub: return address, payload number, 128 bytes of red
 *                       zone
 *   payload_return      jumped to by the stub of an exit that is a return: payload number, the
 *                       return address of the function, which is at the site's stack pointer
 */
#define XMM   0
#define GPR   64
#define FRAME 192
#define FLAGS 200 /* bytes of the frame and of the flags */

	.macro keep reg, number
	movq %\reg, GPR + 8 * \number(%rsp)
	.cfi_rel_offset \reg, GPR + 8 * \number
	.endm

	.macro put_back reg, number
	movq GPR + 8 * \number(%rsp), %\reg
	.cfi_restore \reg
	.endm

	/* above: bytes between the flags and the site's stack; number: offset of the payload number
	 * in them; cfa: the part of them that the stub has pushed */
	.macro payload_hook name, kind, above, number, cfa, drop
	.p2align 5
	.type \name, @function
\name:
	.cfi_startproc
	.cfi_def_cfa_offset \cfa
	endbr64
	pushfq
	.cfi_adjust_cfa_offset 8
	leaq -FRAME(%rsp), %rsp
	.cfi_adjust_cfa_offset FRAME
	keep rax, 0
	keep rcx, 1
	keep rdx, 2
	keep rbx, 3
	keep rbp, 5
	keep rsi, 6
	keep rdi, 7
	keep r8, 8
	keep r9, 9
	keep r10, 10
	keep r11, 11
	keep r12, 12
	keep r13, 13
	keep r14, 14
	keep r15, 15
	leaq FLAGS + \above(%rsp), %rax
	movq %rax, GPR + 8 * 4(%rsp)
	.irp i, 0, 1, 2, 3, 4, 5, 6, 7
	movlps %xmm\i, XMM + 8 * \i(%rsp)
	.endr
	movq %rsp, %rdi
	movl FLAGS + \number(%rsp), %esi
	movl $\kind, %edx
	movq %rsp, %rbx
	.cfi_def_cfa_register rbx
	andq $-16, %rsp
	cld
	call rt_record_values
	movq %rbx, %rsp
	.cfi_def_cfa_register rsp
	put_back rax, 0
	put_back rcx, 1
	put_back rdx, 2
	put_back rbx, 3
	put_back rsi, 6
	put_back rdi, 7
	put_back r8, 8
	put_back r9, 9
	put_back r10, 10
	put_back r11, 11
	leaq FRAME(%rsp), %rsp
	.cfi_adjust_cfa_offset -FRAME
	popfq
	.cfi_adjust_cfa_offset -8
	.if \drop
	leaq 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	.endif
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm

	.text
	.globl rt_payload_base
	.hidden rt_payload_base
rt_payload_base:
	.skip 1 /* so that no hook has the offset 0 */
	payload_hook payload_entry, 1, 16, 0, 16, 1
	payload_hook payload_exit, 2, 16, 0, 16, 1
	payload_hook payload_point, 4, 16, 0, 16, 1
	payload_hook payload_jump_entry, 1, 144, 8, 8, 0
	payload_hook payload_jump_exit, 2, 144, 8, 8, 0
	payload_hook payload_jump_point, 4, 144, 8, 8, 0
	payload_hook payload_return, 2, 8, 0, 16, 1

	/* position-independent: offsets from rt_payload_base */
	.section .rodata
	.p2align 3
	.globl rt_payload_hooks
	.hidden rt_payload_hooks
rt_payload_hooks:
	.long payload_entry - rt_payload_base, payload_jump_entry - rt_payload_base
	.long payload_exit - rt_payload_base, payload_jump_exit - rt_payload_base
	.long 0, 0
	.long payload_point - rt_payload_base, payload_jump_point - rt_payload_base
	.globl rt_payload_return_hook
	.hidden rt_payload_return_hook
rt_payload_return_hook:
	.long payload_return - rt_payload_base
	.section .note.GNU-stack, "", @progbits
