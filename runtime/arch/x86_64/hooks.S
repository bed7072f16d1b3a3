/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks. Stubs (common/arch/x86_64/site.c) jump to them or call them.
 *
 *   hook_KIND_call   jumped to; the site's return address is on top of the stack, the number is in
 *                    r11d
 *   hook_KIND_entry, hook_KIND_return
 *                    jumped to; the site's return address is on top of the stack, the number in
 *                    the four bytes at 8 below the stack pointer
 *   hook_KIND_all    jumped to; the number is on top of the stack, the site's return address
 *                    under it
 *   hook_at_return   jumped to by the stub of an exit that is a return: as hook_exit_return, but
 *                    the function's return address is on top of the stack
 *   hook_tail        called by the stub of a tail exit that is a jump: return address, number, the
 *                    function's return address
 *   hook_plt         called by the stub of a PLT entry: return address, number, the return address
 *                    of the call of the PLT entry
 *   jump_KIND        called by a jump stub: return address, number, 128 bytes of red zone
 *
 * Each hook tries the common case of rt_record() in line (record_paths.S). In the common case the
 * thread has its slot, there is no other hook below, the sub-buffer has room, and a compact record
 * is enough. In all other cases the hook changes nothing, and slow_KIND does the work: it saves the
 * registers that may be live, calls rt_record(), and returns to the site; at a return it returns to
 * the function's caller.
 *
 * In sessions with modes (common/abi/area.h) the comparison of the session's number fails. The code
 * behind that handles coarse time, counts and histograms in line, with the same registers. So the
 * common case does not pay for them.
 *
 * A hook preserves:
 *   - all registers that the site relies on (enum ip_site_regs);
 *   - the flags where they may be live (at no call or return, and at no jump to a function), and
 *     always the direction and alignment-check flags;
 *   - x87, MXCSR, vector and mask registers. Neither the hooks nor the C code behind them touch
 *     these: it is compiled for general registers;
 *   - memory above the stack pointer. Below it, a site of form CALL has nothing; a site of form
 *     JUMP has 128 bytes, which its stub has stepped over.
 *
 * In the common case a hook saves registers below the stack pointer without moving it: signal
 * handlers keep clear of the 128 bytes below it.
 *
 * The recorded stack pointer is the site's. At an exit that is a return it is the hook's own, since
 * the site has called nothing. For a tail exit it is the caller's before its call: there the
 * function's return address was on top of the stack at the site; at a site of form RETURN it is the
 * only return address.
 *
 * Unwinding works at each instruction. Also the registers that no call preserves have unwinding
 * information: in the middle of a function (regs ALL) its frame may be computed from one of them.
 */
#include "runtime/arch/x86_64/layout.h"
#include "runtime/arch/x86_64/record_paths.S"

#define JUMP_FRAME 144 /* return address, number, red zone */
#define TAIL_FRAME 24  /* return address, number, the function's return address */

	.macro push reg
	pushq %\reg
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset \reg, 0
	.endm

	.macro pop reg
	popq %\reg
	.cfi_adjust_cfa_offset -8
	.cfi_restore \reg
	.endm

	.macro save
	push rax
	push rcx
	push rdx
	push rsi
	push rdi
	push r8
	push r9
	push r10
	.endm

	.macro restore
	pop r10
	pop r9
	pop r8
	pop rdi
	pop rsi
	pop rdx
	pop rcx
	pop rax
	.endm

	.macro begin name
	.p2align 6
	.type \name, @function
\name:
	.cfi_startproc
	.endm

	.macro end name
	.cfi_endproc
	.size \name, . - \name
	.endm

	/*
	 * The hook of a jump stub leaves the stub out of the chain of frames. No function has
	 * called the stub, and unwinders that look from outside (libdw, libunwind) do not know
	 * memory that is not part of a file. The hook's frame begins at the site's stack pointer.
	 * It returns to the site's end, which is where the jump at byte 24 of the stub goes
	 * (stub_cfi.h):
	 *   const2u 144, minus, deref           the return address: byte 16 of the stub
	 *   dup, plus_uconst 8, deref           e9 rel32 cc cc cc
	 *   const1u 24, shl, const1u 32, shra, plus, plus_uconst 13
	 */
	.macro from_jump_stub
	.cfi_def_cfa_offset JUMP_FRAME
	.cfi_escape 0x16, 0x10, 0x12, 0x0a, 0x90, 0x00, 0x1c, 0x06, 0x12, 0x23
	.cfi_escape 0x08, 0x06, 0x08, 0x18, 0x24, 0x08, 0x20, 0x26, 0x22, 0x23, 0x0d
	.endm

	/* As if the function had jumped to the hook: its frame has gone, or has not begun, and the
	 * stub is left out of the chain of frames. */
	.macro from_tail_stub
	.cfi_def_cfa_offset TAIL_FRAME
	.endm

	/*
	 * The slow hooks. tail: bytes from the site's stack pointer to the recorded one.
	 */
	.macro slow name, kind, tail
	begin \name
	save
	movl %r11d, %edi
	movl $\kind, %esi
	leaq 72 + \tail(%rsp), %rdx
	call rt_record
	restore
	ret
	end \name
	.endm

	/* The number is on top of the stack. flags: 8 saves them too (rax has no room for them),
	 * and clears the direction flag, as C wants it; 0: they are free. */
	.macro slow_pushed name, kind, tail, flags
	begin \name
	.cfi_def_cfa_offset 16
	.if \flags
	pushfq
	.cfi_adjust_cfa_offset 8
	.endif
	save
	push r11
	movl 72 + \flags(%rsp), %edi
	movl $\kind, %esi
	leaq 88 + \flags + \tail(%rsp), %rdx
	.if \flags
	cld
	.endif
	call rt_record
	pop r11
	restore
	.if \flags
	popfq
	.cfi_adjust_cfa_offset -8
	.endif
	leaq 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	end \name
	.endm

	/* Of stubs that call the hook: return address and number are on the stack. at: bytes from
	 * there to the recorded stack pointer. from: the macro that says where the frame begins. */
	.macro slow_stub name, kind, at, from
	begin \name
	\from
	pushfq
	.cfi_adjust_cfa_offset 8
	save
	push r11
	movl 88(%rsp), %edi
	movl $\kind, %esi
	leaq 96 + \at(%rsp), %rdx
	cld
	call rt_record
	pop r11
	restore
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	end \name
	.endm

	/* Saves reg below the stack pointer. cfa: distance from the stack pointer to the frame's
	 * address. */
	.macro keep reg, at, cfa
	movq %\reg, -\at(%rsp)
	.cfi_offset \reg, -\at - \cfa
	.endm

	.macro get reg, at
	movq -\at(%rsp), %\reg
	.cfi_restore \reg
	.endm

	.macro keep_five cfa
	keep rax, 8, \cfa
	keep rcx, 16, \cfa
	keep rdx, 24, \cfa
	keep rsi, 32, \cfa
	keep rdi, 40, \cfa
	.endm

	.macro get_five
	get rdi, 40
	get rsi, 32
	get rdx, 24
	get rcx, 16
	get rax, 8
	.endm

	/*
	 * The compiler expects a call: all registers that a call may change are free. The slow hook
	 * saves them although it need not.
	 */
	.macro leave_call
	ret
	.endm

	.macro hook_call name, kind, up, slow
	begin \name
	endbr64
	record \kind, \up
	leave_call
	give_back \kind, \up, leave_call
	jmp \slow
	end \name
	.endm

	/*
	 * A function's first instruction, and in front of a return: the flags are free. r11 is free
	 * by the calling convention; but a compiler that knows which registers a function uses
	 * (gcc's -fipa-ra) keeps values of its callers in others, and r11 may be one of them. The
	 * same holds at a return for the registers that carry arguments.
	 *
	 * What is below the stack pointer there is nobody's, so the stub has put the number below
	 * it. rax takes that place once the number is in r11d.
	 */
	.macro leave_entry
	get r11, 48
	get_five
	ret
	.endm

	.macro hook_entry name, kind, up, slow
	begin \name
	endbr64
	keep r11, 48, 8
	movl -8(%rsp), %r11d
	keep_five 8
	record \kind, \up
	.cfi_remember_state
	leave_entry
	.cfi_restore_state
	give_back \kind, \up, leave_entry
	get_five
	movl %r11d, -8(%rsp)
	get r11, 48
	leaq -8(%rsp), %rsp
	.cfi_adjust_cfa_offset 8
	jmp \slow
	end \name
	.endm

	/*
	 * Everything is live. lahf and seto save the flags that instructions here change. (The
	 * overflow flag comes back by an addition: 127 + 1 overflows.) pushf and popf would take
	 * ten times as long.
	 */
	.macro keep_all cfa, number
	keep_five \cfa
	keep r11, 48, \cfa
	seto %al
	lahf
	movl %eax, -56(%rsp)
	movl \number(%rsp), %r11d
	.endm

	.macro get_all
	movl -56(%rsp), %eax
	addb $127, %al
	sahf
	get r11, 48
	get_five
	.endm

	.macro leave_all
	get_all
	leaq 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	.endm

	.macro hook_all name, kind, up, slow
	begin \name
	.cfi_def_cfa_offset 16
	endbr64
	keep_all 16, 0
	record \kind, \up
	.cfi_remember_state
	leave_all
	.cfi_restore_state
	give_back \kind, \up, leave_all
	get_all
	jmp \slow
	end \name
	.endm

	/*
	 * The hooks that stubs call. keep and get save and restore the registers; leave restores
	 * them and returns.
	 */
	.macro hook_stub name, kind, up, slow, from, keep, get, leave
	begin \name
	\from
	endbr64
	\keep
	record \kind, \up
	.cfi_remember_state
	\leave
	.cfi_restore_state
	give_back \kind, \up, \leave
	\get
	jmp \slow
	end \name
	.endm

	.macro keep_at_jump
	keep_all JUMP_FRAME, 8
	.endm

	.macro leave_jump
	get_all
	ret
	.endm

	/* A function that is jumped to reads no flags. */
	.macro keep_at_tail
	keep_five TAIL_FRAME
	keep r11, 48, TAIL_FRAME
	movl 8(%rsp), %r11d
	.endm

	.macro get_at_tail
	get r11, 48
	get_five
	.endm

	.macro leave_tail
	get_at_tail
	ret
	.endm

	.text
	.globl rt_hooks_base
	.hidden rt_hooks_base
rt_hooks_base:

	/* enum ip_probe_kind. up: 8 bytes to the site's stack pointer; 8 more to the caller's
	 * before the call of the function */
	.macro kind name, kind, up, up_call
	hook_call hook_\name\()_call, \kind, \up_call, slow_\name\()_call
	hook_entry hook_\name\()_entry, \kind, \up, slow_\name
	hook_entry hook_\name\()_return, \kind, \up, slow_\name
	hook_all hook_\name\()_all, \kind, (\up+8), slow_\name\()_all
	hook_stub jump_\name, \kind, (\up+8+128), jump_slow_\name, from_jump_stub, \
		keep_at_jump, get_all, leave_jump
	slow slow_\name\()_call, \kind, (\up_call-8)
	slow_pushed slow_\name, \kind, (\up-8), 0
	slow_pushed slow_\name\()_all, \kind, (\up-8), 8
	slow_stub jump_slow_\name, \kind, (128+\up-8), from_jump_stub
	.endm

	kind entry, 1, 8, 8
	kind exit, 2, 8, 8
	/* Registers CALL: a site of form RETURN. The function has jumped to the stub, and the
	 * function's return address is on top of the stack. */
	kind tail_exit, 3, 16, 8
	kind point, 4, 8, 8
	hook_entry hook_at_return, 2, 0, slow_at_return
	slow_pushed slow_at_return, 2, -8, 0
	/* 8 bytes from the site's stack pointer to the caller's before the call of the function */
	hook_stub hook_tail, 3, 24, slow_tail, from_tail_stub, keep_at_tail, get_at_tail, leave_tail
	slow_stub slow_tail, 3, 8, from_tail_stub
	/* the recorded stack pointer is that of a function's first instruction, where the return
	 * address of its call is on top */
	hook_stub hook_plt, 1, 16, slow_plt, from_tail_stub, keep_at_tail, get_at_tail, leave_tail
	slow_stub slow_plt, 1, 0, from_tail_stub

	/*
	 * Does what stubs do, with number 0: it calls the hook of an entry and the hook of an exit.
	 * C handles them, as all events of a number with duty FPERF.
	 */
	.globl rt_fperf_try
	.hidden rt_fperf_try
	begin rt_fperf_try
	call 1f
	call 2f
	ret
1:	movl $0, -8(%rsp)
	jmp hook_entry_entry
2:	movl $0, -8(%rsp)
	jmp hook_exit_return
	end rt_fperf_try

	/* position-independent: offsets from rt_hooks_base */
	.section .rodata
	.p2align 3
	.globl rt_hooks, rt_jump_hooks
	.hidden rt_hooks, rt_jump_hooks
rt_hooks:
	.irp name, entry, exit, tail_exit, point
	.long hook_\name\()_call - rt_hooks_base
	.long hook_\name\()_entry - rt_hooks_base
	.long hook_\name\()_return - rt_hooks_base
	.long hook_\name\()_all - rt_hooks_base
	.endr
rt_jump_hooks:
	.irp name, entry, exit, tail_exit, point
	.long jump_\name - rt_hooks_base
	.endr
	.globl rt_return_hook, rt_tail_hook, rt_plt_hook
	.hidden rt_return_hook, rt_tail_hook, rt_plt_hook
rt_plt_hook:
	.long hook_plt - rt_hooks_base
rt_tail_hook:
	.long hook_tail - rt_hooks_base
rt_return_hook:
	.long hook_at_return - rt_hooks_base
	.section .note.GNU-stack, "", @progbits
