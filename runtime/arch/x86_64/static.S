/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a static program contains besides the runtime: the empty hooks of -finstrument-functions,
 * and the note that tells where the anchor is.
 */
	.text
	/* In libc both names are one function. Here they are two, so that their calls can be told
	 * apart. They are weak, so that a program's own tracer comes first. */
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

	.section .note.iprobe, "a", @note
	.p2align 2
	.long 7, 16, 2
	.asciz "iprobe"
	.p2align 2
	.quad iprobe_rt_anchor - .
	.quad 16

	.section .note.GNU-stack, "", @progbits
