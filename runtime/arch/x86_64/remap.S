/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs to change mappings of text (runtime/remap.c), and its stack.
 */
#include "runtime/arch/x86_64/borrowed.h"

	BORROWED rt_remap, rt_remap_block, rt_remap_run

	/* The block, a struct ip_remap, lies at the top of its own stack. So a signal that comes
	 * while the code pops the block finds room below. */
	.bss
	.p2align 6
	.skip 65536
	.globl rt_remap_block
	.hidden rt_remap_block
rt_remap_block:
	.skip 192 + 512 * 32

	.section .note.GNU-stack, "", @progbits
