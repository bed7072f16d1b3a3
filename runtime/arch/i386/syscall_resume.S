/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As on x86-64 (../x86_64/syscall_resume.S), but with the short form only. 32-bit code has no spare
 * register that could tell the slot, and the program's stack may have no room below its pointer. So
 * a slot holds the code itself. The tracer writes this code while every thread is stopped. The
 * instructions contain the caller's registers and its address (hotpatcher/ptrace/restart_slot.c,
 * narrow_code()):
 *
 *         int $0x80; mov $.., %ebx; %ecx; %edx; %esi; %edi; %ebp; jmp CALLER
 *
 * struct ip_restart follows. The code changes no flag and no register except eax. It reads nothing
 * from memory and writes nothing to memory. For unwinders this is the frame of a signal, whose
 * registers lie in the slot: at (eip & -IP_RESTART_NARROW) + offset, which is breg8 0, const2s
 * -256, and, plus_uconst offset.
 */
#include "common/abi/restart_slots.h"

	.macro saved_in_slot register, offset
	.cfi_escape 0x10, \register, 8, 0x78, 0, 0x0b, 0x00, 0xff, 0x1a, 0x23, \offset
	.endm

	.section .iprobe.stubs, "ax", @nobits
	.p2align 12
	.globl rt_restart, rt_restart_end
	.hidden rt_restart, rt_restart_end
	.type rt_restart, @object
	.size rt_restart, IP_RESTART_NARROW_SLOTS * IP_RESTART_NARROW
rt_restart:
	.cfi_startproc
	.cfi_signal_frame
	.cfi_def_cfa esp, 0
	saved_in_slot 8, 64   /* eip: struct ip_restart, pc */
	saved_in_slot 3, 80   /* ebx, ecx, edx, esi, edi, ebp: arguments */
	saved_in_slot 1, 88
	saved_in_slot 2, 96
	saved_in_slot 6, 104
	saved_in_slot 7, 112
	saved_in_slot 5, 120
	.skip IP_RESTART_NARROW_SLOTS * IP_RESTART_NARROW
rt_restart_end:
	.cfi_endproc

	.section .note.GNU-stack, "", @progbits
