/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a borrowed thread runs to change mappings of text (runtime/remap.c), and its stack.
 */
#include "runtime/arch/x86_64/borrowed.h"

	BORROWED rt_flip, rt_flip_block, rt_flip_run

	/* The block, a struct ip_flip, lies at the top of its own stack: a signal that comes while it is taken off finds room below. */
	.bss
	.p2align 6
	.skip 65536
	.globl rt_flip_block
	.hidden rt_flip_block
rt_flip_block:
	.skip 192 + 512 * 32

	.section .note.GNU-stack, "", @progbits
