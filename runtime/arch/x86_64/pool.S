/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for the stubs of libraries (IP_POOL_LIBRARIES). It is a part of the runtime's own image. So
 * unwinders find the stubs' unwinding information as they find that of any function. It takes
 * address space, but no memory and no room in the file. The process itself can never write it.
 */
#include "common/arch/x86_64/stub_cfi.h"
#include "runtime/arch/x86_64/layout.h"

	.section .iprobe.stubs, "ax", @nobits
	.p2align 12
	.globl rt_pool
	.hidden rt_pool
	.type rt_pool, @object
	.size rt_pool, RT_POOL_SIZE
rt_pool:
	.cfi_startproc
	.cfi_escape IP_STUB_CFI_CFA
	.cfi_escape IP_STUB_CFI_RA
	.skip RT_POOL_SIZE
	.cfi_endproc
	.section .note.GNU-stack, "", @progbits
