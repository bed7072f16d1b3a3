/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a borrowed thread runs to set a sleeping runtime up (hotpatcher/inject/runtime_wake.h), and
 * the stack on which it does.
 */
#include "runtime/arch/x86_64/borrowed.h"

	BORROWED rt_wake, rt_wake_block, rt_wake_up

	/* The block lies at the top of its own stack: a signal that comes while it is taken off
	 * finds room below. */
	.bss
	.p2align 6
	.skip 262144
	.globl rt_wake_block
	.hidden rt_wake_block
rt_wake_block:
	.skip 256

	.section .note.GNU-stack, "", @progbits
