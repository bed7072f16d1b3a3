/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runtime's code for borrowed threads, as this iprobe knows it. It is compared with the code in
 * a target, and is never executed here.
 */
#include "runtime/arch/x86_64/borrowed.h"

	BORROWED ip_borrowed_code, ip_borrowed_code, ip_borrowed_code

	.section .rodata
	.p2align 3
	.globl ip_borrowed_distances
	.hidden ip_borrowed_distances
ip_borrowed_distances:
	.irp n, 1, 2, 3, 4, 5, 6
	.quad .Lip_borrowed_code_\n - ip_borrowed_code
	.endr
	.globl ip_borrowed_data
	.hidden ip_borrowed_data
ip_borrowed_data:
	.quad SIGNALS_ALL, 0, 0, 100000000

	.section .note.GNU-stack, "", @progbits
