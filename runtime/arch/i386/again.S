/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As on x86-64 (../x86_64/again.S), the short form only. There is no red zone; the caller's program counter lies on top of the frame
 * a second time, so that `ret` takes it. Of struct ip_again only the low halves of registers count. All registers but eax come back.
 */
#define FRAME	  200
#define ARGUMENTS 16

	.text
	.p2align 6
	.globl rt_again, rt_again_end, rt_again_call
	.hidden rt_again, rt_again_end, rt_again_call
	.type rt_again, @function
rt_again:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa esp, FRAME
	.cfi_offset eip, -4
	.cfi_offset ebx, ARGUMENTS - FRAME
	.cfi_offset ecx, ARGUMENTS + 8 - FRAME
	.cfi_offset edx, ARGUMENTS + 16 - FRAME
	.cfi_offset esi, ARGUMENTS + 24 - FRAME
	.cfi_offset edi, ARGUMENTS + 32 - FRAME
	.cfi_offset ebp, ARGUMENTS + 40 - FRAME
	int $0x80
rt_again_call:
	movl ARGUMENTS(%esp), %ebx
	movl ARGUMENTS + 8(%esp), %ecx
	movl ARGUMENTS + 16(%esp), %edx
	movl ARGUMENTS + 24(%esp), %esi
	movl ARGUMENTS + 32(%esp), %edi
	movl ARGUMENTS + 40(%esp), %ebp
	.cfi_same_value ebx
	.cfi_same_value ecx
	.cfi_same_value edx
	.cfi_same_value esi
	.cfi_same_value edi
	.cfi_same_value ebp
	leal FRAME - 4(%esp), %esp
	.cfi_def_cfa_offset 4
	ret
rt_again_end:
	.cfi_endproc
	.size rt_again, . - rt_again

	/* there is no long form */
	.globl rt_again_poll, rt_again_rest
	.hidden rt_again_poll, rt_again_rest
	.set rt_again_poll, rt_again_end
	.set rt_again_rest, rt_again_end

	.section .note.GNU-stack, "", @progbits
