/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks: where stubs (common/arch/x86_64/site.c) hand over.
 *
 *   hook_KIND_REGS   jumped to; the site's return address on top of the stack, the number in r11d
 *   hook_KIND_all    jumped to; the number on top of the stack, the site's return address under it
 *   jump_KIND        called by a jump stub: return address, number, 128 bytes of red zone
 *
 * Each tries the common case of rt_record() (record.c) in line: steps 1 to 5 of its protocol, in
 * its order, where the thread has its slot and no other hook below, the sub-buffer has room, and a
 * compact record will do. Anything else is left as if nothing had happened, and slow_KIND does it:
 * it saves what may be live, calls rt_record() and goes back to the site.
 *
 * Sessions with modes (common/abi/area.h) fail the comparison of their number, and go on behind:
 * coarse time (steps A1 to A3), counts and histograms in line, with the same registers. The common
 * case does not pay for them.
 *
 * What stays as it was: all that the site may count on (enum ip_site_regs), the flags where they
 * may be live, the direction and alignment-check flags always; x87, MXCSR, vector and mask
 * registers, since nothing here or in the C behind it (compiled for general registers) touches
 * them; and memory above the stack pointer. Below it, a site of form CALL has nothing, and of form
 * JUMP 128 bytes that its stub has stepped over. There the common case saves registers without
 * moving the stack pointer: signal handlers keep 128 bytes clear of it.
 *
 * The stack pointer that is recorded is the site's; for a tail exit the caller's before its call:
 * there the return address of the function has been on top of the stack at the site, and in a site
 * of form RETURN it is the only one.
 *
 * Unwinding works at each instruction; registers that no call preserves are told too, since in the
 * middle of a function (regs ALL) its frame may be reckoned from one.
 */
#include "runtime/arch/x86_64/layout.h"

#define JUMP_FRAME 144 /* return address, number, red zone */

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
	 * A jump stub's hook leaves the stub out of the chain of frames: it was not called from a
	 * function, and unwinders that look from outside (libdw, libunwind) do not know memory that
	 * is no part of a file. Its frame begins at the site's stack pointer, and returns to the
	 * site's end, where the jump at byte 24 of the stub goes (stub_cfi.h):
	 *   const2u 144, minus, deref           the return address: byte 16 of the stub
	 *   dup, plus_uconst 8, deref           e9 rel32 cc cc cc
	 *   const1u 24, shl, const1u 32, shra, plus, plus_uconst 13
	 */
	.macro from_jump_stub
	.cfi_def_cfa_offset JUMP_FRAME
	.cfi_escape 0x16, 0x10, 0x12, 0x0a, 0x90, 0x00, 0x1c, 0x06, 0x12, 0x23, 0x08, 0x06, 0x08, 0x18, 0x24, 0x08, 0x20
	.cfi_escape 0x26, 0x22, 0x23, 0x0d
	.endm

	/*
	 * The slow hooks. tail: bytes from the site's stack pointer to what is recorded.
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

	/* flags: rax has none left for them, the direction flag must be clear in C */
	.macro slow_all name, kind, tail
	begin \name
	.cfi_def_cfa_offset 16
	pushfq
	.cfi_adjust_cfa_offset 8
	save
	push r11
	movl 80(%rsp), %edi
	movl $\kind, %esi
	leaq 96 + \tail(%rsp), %rdx
	cld
	call rt_record
	pop r11
	restore
	popfq
	.cfi_adjust_cfa_offset -8
	leaq 8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	ret
	end \name
	.endm

	.macro slow_jump name, kind, tail
	begin \name
	from_jump_stub
	pushfq
	.cfi_adjust_cfa_offset 8
	save
	push r11
	movl 88(%rsp), %edi
	movl $\kind, %esi
	leaq 96 + 128 + \tail(%rsp), %rdx
	cld
	call rt_record
	pop r11
	restore
	popfq
	.cfi_adjust_cfa_offset -8
	ret
	end \name
	.endm

	/* The thread's slot of the session in the gate to rcx; goes to 8 where there is none
	 * (runtime/self.h), to 9 where a mark may be what makes the session's number differ. */
	.macro slot_of_thread
#ifdef RT_INJECTED
	movq rt_injection(%rip), %rdx
	movq rt_gate(%rip), %rax
	movl %fs:(%rdx), %edi
	movzwl %di, %ecx
	leaq rt_threads(%rip), %rdx
	movl GATE_SESSION(%rax), %eax
	movq (%rdx, %rcx, 8), %rcx
	/* in a forked child there may be no slots at the address that its parent has noted */
	testl %eax, %eax
	jz 8f
	testq %rcx, %rcx
	jz 8f
	shlq $32, %rdi
	orq $SLOT_CLAIMED, %rdi
	cmpq %rdi, SLOT_STATE(%rcx)
	jne 8f
	cmpl %eax, SLOT_SESSION(%rcx)
	jne 9f
#else
	/* in this order: a handler that comes in between and claims a slot for a new session shows
	 * in the gate */
	movq rt_self@gottpoff(%rip), %rcx
	movq rt_gate(%rip), %rdx
	movl %fs:SELF_SESSION(%rcx), %eax
	movq %fs:SELF_SLOT(%rcx), %rcx
	cmpl %eax, GATE_SESSION(%rdx)
	jne 9f
	testq %rcx, %rcx
	jz 8f
#endif
	.endm

	/* From 9: goes on where the session has modes and the thread its slot in it, in rcx. A
	 * number with the mark is noted for a thread behind its slot, so there is one. */
	.macro slot_with_mark
	xorl $SESSION_MARK, %eax
#ifdef RT_INJECTED
	cmpl %eax, SLOT_SESSION(%rcx)
#else
	cmpl %eax, GATE_SESSION(%rdx)
#endif
	jne 8f
	.endm

	/* eax: its number, with the mark, as the slot has it. */
	.macro number_with_mark
#ifndef RT_INJECTED
	xorl $SESSION_MARK, %eax
#endif
	.endm

	/* Steps 2 to 5, the slot in rcx. */
	.macro write_record kind, up
	/* 2. */
	cmpq $0, SLOT_GUARD(%rcx)
	jne 8f
	/* 3. */
	leaq \up(%rsp), %rdi
	movq %rdi, SLOT_GUARD(%rcx)
	/* 4. rsi: cur */
	movq SLOT_CUR(%rcx), %rsi
	/* of a sub-buffer that there is: the slot is shared memory */
	movq %rsi, %rax
	shrq $POSITION_BITS, %rax
	cmpl rt_private + PRIVATE_NSUBBUFS(%rip), %eax
	jae 7f
	rdtsc
	testl $SUBBUF_WORDS - 1, %esi
	jz 7f
	/* edx:eax >> TIME_BITS is still the epoch */
	movl %eax, %edi
	shrl $TIME_BITS, %edi
	leaq (%rdi, %rdx, 1 << (32 - TIME_BITS)), %rdx
	cmpq %rdx, SLOT_EPOCH(%rcx)
	jne 7f
	/* the stack pointer is near the last one */
	leaq \up + SP_WINDOW / 2(%rsp), %rdx
	subq SLOT_LAST_SP(%rcx), %rdx
	cmpq $SP_WINDOW, %rdx
	jae 7f
	/* rdi: the word */
	leal \kind(, %rax, 8), %edi
	leaq \up(%rsp), %rdx
	movq %rdx, SLOT_LAST_SP(%rcx)
	shrl $SP_SHIFT, %edx
	shll $NUMBER_BITS, %edx
	orl %r11d, %edx
	shlq $32, %rdx
	orq %rdx, %rdi
	/* reserve: not locked, only this thread's own handlers compete */
	movq %rsi, %rax
	leaq 1(%rsi), %rdx
	cmpxchgq %rdx, SLOT_CUR(%rcx)
	jne 6f
	/* fill */
	shrq $POSITION_BITS, %rax
	andl $SUBBUF_WORDS - 1, %esi
	shlq $SUBBUF_SHIFT, %rax
	addq rt_data(%rip), %rax
	movq %rdi, (%rax, %rsi, 8)
	/* 5. */
	movq $0, SLOT_GUARD(%rcx)
	.endm

	/* The same with coarse time: A1 and A2. Goes to 4 where cur was something else, which rax
	 * tells. */
	.macro write_coarse kind, up
	cmpq $0, SLOT_GUARD(%rcx)
	jne 8f
	leaq \up(%rsp), %rdi
	movq %rdi, SLOT_GUARD(%rcx)
	movq SLOT_CUR(%rcx), %rsi
	movq rt_clock(%rip), %rax
	movq (%rax), %rax
	movq %rsi, %rdx
	shrq $POSITION_BITS, %rdx
	cmpl rt_private + PRIVATE_NSUBBUFS(%rip), %edx
	jae 7f
	/* none of the words that are spared */
	leal SUBBUF_SPARE(%rsi), %edx
	testl $SUBBUF_WORDS - SUBBUF_SPARE, %edx
	jz 7f
	cmpq %rax, SLOT_EPOCH(%rcx)
	jne 7f
	leaq SP_WINDOW / 2(%rdi), %rdx
	subq SLOT_LAST_SP(%rcx), %rdx
	cmpq $SP_WINDOW, %rdx
	jae 7f
	movq %rdi, SLOT_LAST_SP(%rcx)
	/* rdi: the word */
	shrl $SP_SHIFT, %edi
	shll $NUMBER_BITS, %edi
	orl %r11d, %edi
	shlq $32, %rdi
	leal \kind(, %rax, 8), %edx
	orq %rdx, %rdi
	movl $1, %eax
	xaddq %rax, SLOT_CUR(%rcx)
	cmpq %rsi, %rax
	jne 4f
	/* where it lies follows from what was read: that is known earlier */
	movq %rsi, %rdx
	shrq $POSITION_BITS, %rdx
	andl $SUBBUF_WORDS - 1, %esi
	shlq $SUBBUF_SHIFT, %rdx
	addq rt_data(%rip), %rdx
	movq %rdi, (%rdx, %rsi, 8)
	movq $0, SLOT_GUARD(%rcx)
	.endm

	/* A3. rax: what cur was. Goes on at 6, or to 5 where the event is lost. */
	.macro take_back
	movq %rax, %rdx
	incq %rax
	cmpxchgq %rdx, SLOT_CUR(%rcx)
	je 6f
	shrq $POSITION_BITS, %rdx
	cmpl $NO_SUBBUF, %edx
	je 6f
	movq $-1, SLOT_EPOCH(%rcx)
	movq $0, SLOT_GUARD(%rcx)
	jmp 5b
	.endm

	/*
	 * The common case. rsp + up is the stack pointer to record, number in r11d. Uses rax, rcx,
	 * rdx, rsi, rdi and the flags (r11 too, once nothing can go to C any more). Falls through
	 * to 5 when the record is written; goes to 8 where nothing has happened.
	 */
	.macro record kind, up
	/* 1. */
	slot_of_thread
2:
	write_record \kind, \up
5:
	.endm

	/* The block of the slot in rcx to rsi, by what the process notes of it; zero flag: it has
	 * none. Uses rdi. */
	.macro block_of_slot
	movq %rcx, %rsi
	subq rt_slots(%rip), %rsi
	leaq rt_blocks(%rip), %rdi
	shrq $SLOT_SHIFT - 3, %rsi
	movq (%rdi, %rsi), %rsi
	testq %rsi, %rsi
	.endm

	/*
	 * runtime/meters.c: holds the guard while the block is worked in. rcx: slot, edi: the
	 * session's number, with its mark; where the slot is another session's by now, nothing has
	 * been done. rdx: the duty's word, which names a place in the blocks: it and the frames are
	 * shared memory, so what they say counts up to the bounds of rt_private. rsi: the block, of
	 * which the process keeps note by itself.
	 */
	.macro hold_guard up
	cmpq $0, SLOT_GUARD(%rcx)
	jne 8f
	leaq \up(%rsp), %rsi
	movq %rsi, SLOT_GUARD(%rcx)
	cmpl %edi, SLOT_SESSION(%rcx)
	jne 7f
	block_of_slot
	jz 7f
	leaq (%rsi, %rdx), %rdi
	cmpq rt_private + PRIVATE_PLACE_LAST(%rip), %rdi
	ja 7f
	.endm

	/* Enters a frame. rcx: slot, rdx: the duty's word, rsi: block */
	.macro enter_frame up
	movq METERS_TOP(%rsi), %rdi
	cmpq rt_private + PRIVATE_FRAMES(%rip), %rdi
	jae 7f
	leaq METERS_FRAME(%rdi), %rax
	movq %rax, METERS_TOP(%rsi)
	addq %rsi, %rdi
	movq %rdx, METERS_FRAMES + FRAME_DUTY(%rdi)
	leaq \up(%rsp), %rsi
	rdtsc
	shlq $32, %rdx
	orq %rdx, %rax
	movq %rax, METERS_FRAMES + FRAME_TIME(%rdi)
	movq $0, METERS_FRAMES + FRAME_INNER(%rdi)
	movq %rsi, METERS_FRAMES + FRAME_SP(%rdi)
	.endm

	/* The topmost frame is the one, and the next one, or the head, is its caller's. Else C
	 * looks for them. rsp + up is the frame's stack pointer; of a function that has moved it
	 * in front of its entry site (tail 1) its caller's: then the frame's lies below that,
	 * and the caller's does not. */
	.macro leave_frame up, tail=0
	movq METERS_TOP(%rsi), %rdi
	testq %rdi, %rdi
	jz 7f
	cmpq rt_private + PRIVATE_FRAMES(%rip), %rdi
	ja 7f
	/* the word that was checked, not what the frame says later */
	movl %edx, -64(%rsp)
	addq %rsi, %rdi
	leaq \up(%rsp), %rax
	.if \tail == 0
	cmpq %rax, METERS_FRAMES - METERS_FRAME + FRAME_SP(%rdi)
	jne 7f
	.endif
	cmpq %rdx, METERS_FRAMES - METERS_FRAME + FRAME_DUTY(%rdi)
	jne 7f
	cmpq %rax, METERS_FRAMES - 2 * METERS_FRAME + FRAME_SP(%rdi)
	jb 7f
	.if \tail
	decq %rax
	subq METERS_FRAMES - METERS_FRAME + FRAME_SP(%rdi), %rax
	cmpq $FRAME_NEAR - 1, %rax
	jae 7f
	.endif
	rdtsc
	shlq $32, %rdx
	orq %rdx, %rax
	subq METERS_FRAMES - METERS_FRAME + FRAME_TIME(%rdi), %rax
	/* what comes to lie above the last bound, and what two processors' clocks disagree about,
	 * are C's */
	movq %rax, %rdx
	shrq $HIST_SHIFT + HIST_LAST, %rdx
	jnz 7f
	movq %rax, %rdx
	subq METERS_FRAMES - METERS_FRAME + FRAME_INNER(%rdi), %rdx
	jb 7f
	movq $0, METERS_FRAMES - METERS_FRAME + FRAME_SP(%rdi)
	addq %rax, METERS_FRAMES - 2 * METERS_FRAME + FRAME_INNER(%rdi)
	/* nothing goes to C from here on: the number is not needed any more. With the new top the
	 * frame is a handler's */
	movl -64(%rsp), %r11d
	subq $METERS_FRAME, METERS_TOP(%rsi)
	addq %r11, %rsi
	addq %rax, HIST_SUM - DUTY_HIST(%rsi)
	addq %rdx, HIST_SELF - DUTY_HIST(%rsi)
	/* below 2^31: packed as it is */
	movl %eax, %edi
3:	movl HIST_MAX - DUTY_HIST(%rsi), %eax
	cmpl %eax, %edi
	jbe 3f
	cmpxchgl %edi, HIST_MAX - DUTY_HIST(%rsi)
	jne 3b
3:	movl %edi, %edx
	notl %edx
	movl HIST_MIN - DUTY_HIST(%rsi), %eax
	cmpl %eax, %edx
	jbe 3f
	cmpxchgl %edx, HIST_MIN - DUTY_HIST(%rsi)
	jne 3b
3:	/* those too short for bucket 1 go to 0 */
	orl $1 << (HIST_SHIFT - 1), %edi
	bsrl %edi, %edi
	/* An address that depends on the time would hold up all loads behind this store until
	 * the time is known: a quarter of the whole cost. Mostly it is the bucket of the last
	 * time; that can be predicted. */
	movl HIST_RECENT - DUTY_HIST(%rsi), %eax
	cmpl %eax, %edi
	je 3f
	movl %edi, HIST_RECENT - DUTY_HIST(%rsi)
	movl %edi, %eax
3:	incl HIST_BUCKETS - DUTY_HIST - 4 * (HIST_SHIFT - 1)(%rsi, %rax, 4)
	.endm

	/*
	 * 9: another session, or one with modes: coarse time alone first; filters are C's; then the
	 * duty of the number decides. Goes back to 5 when it is done, or leaves.
	 */
	.macro by_modes kind, up, leave
9:
	slot_with_mark
	cmpl $MODE_COARSE, SLOT_MODES(%rcx)
	jne 3f
1:	write_coarse \kind, \up
	.cfi_remember_state
	\leave
	.cfi_restore_state
4:	take_back
3:
	testb $MODE_CAREFUL | MODE_MONOTONIC, SLOT_MODES(%rcx)
	jnz 8f
	testb $MODE_PAYLOADS, SLOT_MODES(%rcx)
	jz 1b
	number_with_mark
	movl %eax, %edi
	movq rt_duties(%rip), %rdx
	movl (%rdx, %r11, 4), %edx
	movl %edx, %eax
	andl $DUTY_MASK, %eax
	jz 4f
	cmpl $DUTY_COUNT, %eax
	.if \kind == 1 || \kind == 4
	jne 3f
	hold_guard \up
	.if \kind == 1
	/* a sample may go on in it, or end there (fperf_chain.c, rule 13) */
	cmpq $0, METERS_JUMPED(%rsi)
	jne 7f
	.endif
	incq -DUTY_COUNT(%rsi, %rdx)
	movq $0, SLOT_GUARD(%rcx)
	jmp 5b
	.else
	je 11f
	.endif
3:	cmpl $DUTY_HIST, %eax
	jne 10f
	.if \kind != 4
	hold_guard \up
	.if \kind == 1
	enter_frame \up
	.elseif \kind == 2
	leave_frame \up
	.else
	.ifc \leave, leave_call
	leave_frame \up, 1
	.else
	leave_frame (\up - 8)
	.endif
	incq HIST_TAILED - DUTY_HIST(%rsi)
	.endif
	movq $0, SLOT_GUARD(%rcx)
	.endif
	jmp 5b
	/* Mostly nobody has jumped to the function (open_calls.h, rule 10). The block is only
	 * looked at. */
10:	cmpl $DUTY_JOIN, %eax
	jne 8f
	testb $DUTY_JUMP_BIT, %dl
	jz 11f
	/* of a function that is only counted no call is open */
	movq rt_duties(%rip), %rsi
	movl -4(%rsi, %r11, 4), %esi
	andl $DUTY_MASK, %esi
	cmpl $DUTY_COUNT, %esi
	jne 8f
11:	block_of_slot
	jz 5b
	cmpq $0, METERS_JUMPED(%rsi)
	je 5b
	jmp 8f
	/* it is logged */
4:	testb $MODE_COARSE, SLOT_MODES(%rcx)
	jz 2b
	jmp 1b
	.endm

	/* 7: takes the guard back: for whoever comes now, nothing has begun. 6: last_sp has been
	 * set, but a handler has recorded meanwhile, maybe as the outermost hook (it took the
	 * guard for stale): the next record must be an extended one. */
	.macro give_back kind, up, leave
	by_modes \kind, \up, \leave
6:	movq $-1, SLOT_EPOCH(%rcx)
7:	movq $0, SLOT_GUARD(%rcx)
8:
	.endm

	/* Keeps reg below the stack pointer; cfa: from the stack pointer to the frame's address. */
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
	 * The compiler expects a call: all registers that one may change are free. slow saves them
	 * for nothing.
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

	/* A function's first instruction: r11 and the flags are free. */
	.macro leave_entry
	get_five
	ret
	.endm

	.macro hook_entry name, kind, up, slow
	begin \name
	endbr64
	keep_five 8
	record \kind, \up
	.cfi_remember_state
	leave_entry
	.cfi_restore_state
	give_back \kind, \up, leave_entry
	get_five
	jmp \slow
	end \name
	.endm

	/*
	 * In front of a return: of those that no call preserves rax and rdx are live; others where
	 * the function has a calling convention of its own (ms_abi, preserve_most, regcall). No
	 * convention keeps r11 or the flags.
	 */
	.macro hook_return name, kind, up, slow
	hook_entry \name, \kind, \up, \slow
	.endm

	/*
	 * Everything is live. Of the flags, lahf and seto take what instructions here change (the
	 * overflow flag comes back where 127 + 1 overflows); pushf and popf take ten times as long.
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

	.macro leave_jump
	get_all
	ret
	.endm

	.macro hook_jump name, kind, up, slow
	begin \name
	from_jump_stub
	endbr64
	keep_all JUMP_FRAME, 8
	record \kind, \up
	.cfi_remember_state
	leave_jump
	.cfi_restore_state
	give_back \kind, \up, leave_jump
	get_all
	jmp \slow
	end \name
	.endm

	.text
	.globl rt_hooks_base
	.hidden rt_hooks_base
rt_hooks_base:

	/* enum ip_probe_kind; up: 8 to the site's stack pointer, 8 more to the caller's before the
	 * call of the function */
	.macro kind name, kind, up, up_call
	hook_call hook_\name\()_call, \kind, \up_call, slow_\name\()_call
	hook_entry hook_\name\()_entry, \kind, \up, slow_\name
	hook_return hook_\name\()_return, \kind, \up, slow_\name
	hook_all hook_\name\()_all, \kind, (\up+8), slow_\name\()_all
	hook_jump jump_\name, \kind, (\up+8+128), jump_slow_\name
	slow slow_\name, \kind, (\up-8)
	.if \up == \up_call
	.set slow_\name\()_call, slow_\name
	.else
	slow slow_\name\()_call, \kind, (\up_call-8)
	.endif
	slow_all slow_\name\()_all, \kind, (\up-8)
	slow_jump jump_slow_\name, \kind, (\up-8)
	.endm

	kind entry, 1, 8, 8
	kind exit, 2, 8, 8
	/* Registers CALL: a site of form RETURN, where the stub was jumped to and the function's
	 * return address is on top. */
	kind tail_exit, 3, 16, 8
	kind point, 4, 8, 8

	/*
	 * What stubs do, of number 0: the hooks of an entry and of an exit, in C, as all of a
	 * number whose duty is FPERF.
	 */
	.globl rt_fperf_try
	.hidden rt_fperf_try
	begin rt_fperf_try
	call 1f
	call 2f
	ret
1:	movl $0, %r11d
	jmp hook_entry_entry
2:	movl $0, %r11d
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
	.section .note.GNU-stack, "", @progbits
