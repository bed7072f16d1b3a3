/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for stubs. iprobe-cc links it into every executable and shared library. It is part of the
 * module, so a call always reaches it. It occupies nothing in the file, and no memory until stubs
 * are written. No code refers to it.
 *
 * A note tells where the room is (common/elf/note.h), also in a stripped file and in a running
 * process.
 */
#include "common/arch/x86_64/stub_cfi.h"

	.section .iprobe.stubs, "aw", @nobits
	.p2align 12
room:
	.cfi_startproc
	.cfi_escape IP_STUB_CFI_CFA
	.cfi_escape IP_STUB_CFI_RA
	.zero 1048576
	.cfi_endproc
	.set room_size, . - room

	.section .note.iprobe, "a", @note
	.p2align 2
	.long 7, 16, 1
	.asciz "iprobe"
	.p2align 2
	.quad room - .
	.quad room_size

	.section .note.GNU-stack, "", @progbits
