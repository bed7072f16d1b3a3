/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As on x86-64 (../x86_64/again.S), the short form only. 32-bit code has no register to spare that
 * could tell the slot, and the program's stack may have no room below its pointer. So a slot here
 * holds the code itself, which iprobe writes while every thread stands, with the caller's registers
 * and its address in the instructions (hotpatcher/ptrace/restart_slot.c, narrow_code()):
 *
 *         int $0x80; mov $.., %ebx; %ecx; %edx; %esi; %edi; %ebp; jmp CALLER
 *
 * and behind it struct ip_restart. No flag changes, no register but eax, and nothing is read from
 * memory or written to it. To unwinders this is a signal's frame, whose registers lie in the slot:
 * at (eip & -IP_RESTART_NARROW) + offset, which is breg8 0, const2s -256, and, plus_uconst offset.
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
