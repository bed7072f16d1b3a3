/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for stubs, those of the executable and those of libraries (IP_POOL_LIBRARIES), as on x86-64.
 * At every instruction of a stub the site's return address is on top of the stack. Unwinders assume
 * the same at a function's first instruction.
 */
#include "runtime/arch/i386/layout.h"

	.section .iprobe.stubs, "ax", @nobits
	.p2align 12
	.globl rt_pool
	.hidden rt_pool
	.type rt_pool, @object
	.size rt_pool, RT_POOL_SIZE
rt_pool:
	.cfi_startproc
	.skip RT_POOL_SIZE
	.cfi_endproc
	.section .note.GNU-stack, "", @progbits
