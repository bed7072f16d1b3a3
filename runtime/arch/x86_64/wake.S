/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that a borrowed thread runs to set up a runtime that is not set up yet
 * (hotpatcher/inject/runtime_wake.h), and the stack of that code.
 */
#include "runtime/arch/x86_64/borrowed.h"

	BORROWED rt_wake, rt_wake_block, rt_wake_up

	/* The block lies at the top of its own stack. So a signal that comes while the code pops
	 * the block finds room below. */
	.bss
	.p2align 6
	.skip 262144
	.globl rt_wake_block
	.hidden rt_wake_block
rt_wake_block:
	.skip 256

	.section .note.GNU-stack, "", @progbits
