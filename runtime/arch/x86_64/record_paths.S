/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a hook does in line, as macros for hooks.S, which includes this file: the common case of
 * rt_record() (record.c), steps 1 to 5 of its protocol, in its order; and, behind the comparison of
 * the session's number, what sessions with modes need: coarse time (steps A1 to A3), counts and
 * histograms.
 *
 *   record KIND, UP             records, and falls through to 5, where the hook leaves
 *   give_back KIND, UP, LEAVE   stands behind that: the modes, and the ways on which nothing has
 *                               happened, which go on to C
 *
 * UP: bytes from the hook's stack pointer to the one that is recorded. LEAVE: the macro by which
 * the hook returns. Registers that are used: see record.
 */

	/* Puts the thread's slot of the session in the gate into rcx. Jumps to 8 if there is none
	 * (runtime/self.h), and to 9 if the session's number may differ because of a mark. */
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
	/* The order matters: if a handler comes in between and claims a slot for a new session, the
	 * gate shows it. */
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

	/* At 9: continues if the session has modes and rcx is the thread's slot in it. A number
	 * with the mark is noted for a thread after its slot, so there is a slot. */
	.macro slot_with_mark
	xorl $SESSION_MARK, %eax
#ifdef RT_INJECTED
	cmpl %eax, SLOT_SESSION(%rcx)
#else
	cmpl %eax, GATE_SESSION(%rdx)
#endif
	jne 8f
	.endm

	/* Puts the session's number, with the mark, into eax, as the slot has it. */
	.macro number_with_mark
#ifndef RT_INJECTED
	xorl $SESSION_MARK, %eax
#endif
	.endm

	/* Steps 2 to 4, up to the time. rcx: the slot; rdi: the stack pointer then. */
	.macro begin_record up
	/* step 2 */
	cmpq $0, SLOT_GUARD(%rcx)
	jne 8f
	/* step 3 */
	leaq \up(%rsp), %rdi
	movq %rdi, SLOT_GUARD(%rcx)
	/* step 4. rsi: cur */
	movq SLOT_CUR(%rcx), %rsi
	/* the sub-buffer must exist: the slot is shared memory */
	movq %rsi, %rax
	shrq $POSITION_BITS, %rax
	cmpl rt_private + PRIVATE_NSUBBUFS(%rip), %eax
	jae 7f
	.endm

	/* Steps 2 to 5. The slot is in rcx. */
	.macro write_record kind, up
	begin_record \up
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
	/* rdi: the word to write */
	leal \kind(, %rax, 8), %edi
	leaq \up(%rsp), %rdx
	movq %rdx, SLOT_LAST_SP(%rcx)
	shrl $SP_SHIFT, %edx
	shll $NUMBER_BITS, %edx
	orl %r11d, %edx
	shlq $32, %rdx
	orq %rdx, %rdi
	/* reserve; not locked, since only this thread's own handlers compete */
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
	/* step 5 */
	movq $0, SLOT_GUARD(%rcx)
	.endm

	/* The same with coarse time: steps A1 and A2. Jumps to 4 if cur had another value, which is
	 * in rax. */
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
	/* the word must not be one of the spare words */
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
	/* rdi: the word to write */
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
	/* the address is computed from the value that was read: that is known earlier */
	movq %rsi, %rdx
	shrq $POSITION_BITS, %rdx
	andl $SUBBUF_WORDS - 1, %esi
	shlq $SUBBUF_SHIFT, %rdx
	addq rt_data(%rip), %rdx
	movq %rdi, (%rdx, %rsi, 8)
	movq $0, SLOT_GUARD(%rcx)
	.endm

	/* Puts frame and flags of the number's rule, as one word, into reg. Jumps to none if it has
	 * no rule. The rules are shared memory: what they say is checked as in C. Uses rax. */
	.macro rule_of_number reg, none
	movq rt_filters(%rip), %rax
	cmpl FILTERS_NRULES(%rax), %r11d
	jae \none
	cmpl rt_nrules(%rip), %r11d
	jae \none
	movl %r11d, %eax
	shlq $RULE_SHIFT, %rax
	addq rt_rules(%rip), %rax
	movl RULE_FRAME(%rax), %\reg
	.endm

	/*
	 * An entry of a session that is careful for call sites alone (filter.c, and rt_put() in
	 * record.c): the words that C would write, in its order. C does what is rare, as a call
	 * site that lies in another page than the stack pointer. rdi: the call site, and then the
	 * stack pointer. The rules are shared memory: what they say is checked as in C.
	 */
	.macro write_site up
	begin_record \up
	movl %esi, %eax
	andl $SUBBUF_WORDS - 1, %eax
	jz 7f
	cmpl $SUBBUF_WORDS - SITE_WORDS, %eax
	ja 7f
	/* read once; the flags are its upper half */
	rule_of_number edx, 7f
	movzwl %dx, %eax
	testl $RULE_SITE << 16, %edx
	jz 3f
	xorl %eax, %eax
	jmp 4f
3:	testl %eax, %eax
	jz 7f
	/* in the page of the stack pointer, which is mapped */
	leaq -8(%rdi, %rax), %rdx
	xorq %rdi, %rdx
	shrq $PAGE_SHIFT, %rdx
	jnz 7f
4:	movq -8(%rdi, %rax), %rdi
	testq %rdi, %rdi
	jz 7f
	rdtsc
	shlq $32, %rdx
	orq %rax, %rdx
	movq %rdx, -64(%rsp)
	leaq \up(%rsp), %rax
	movq %rax, SLOT_LAST_SP(%rcx)
	shrq $TIME_BITS, %rdx
	movq %rdx, SLOT_EPOCH(%rcx)
	movq %rsi, %rax
	leaq SITE_WORDS(%rsi), %rdx
	cmpxchgq %rdx, SLOT_CUR(%rcx)
	jne 6f
	shrq $POSITION_BITS, %rax
	movq %rax, %rdx
	shlq $SUBBUF_DESCRIPTOR_SHIFT, %rdx
	addq rt_subbufs(%rip), %rdx
	addw $SITE_WORDS - 1, SUBBUF_SURPLUS(%rdx)
	andl $SUBBUF_WORDS - 1, %esi
	shlq $SUBBUF_SHIFT, %rax
	addq rt_data(%rip), %rax
	leaq (%rax, %rsi, 8), %rsi
	/* rsi: the words. A reader skips a record by the word that tells its length */
	movabsq $SITE_TELLS, %rdx
	movq %rdx, 24(%rsi)
	movq %rdi, 32(%rsi)
	movq -64(%rsp), %rax
	movq %rax, %rdx
	shlq $32, %rdx
	orq $SITE_KIND, %rdx
	movq %rdx, (%rsi)
	leaq \up(%rsp), %rdi
	movl %edi, %edx
	shrl $SP_SHIFT, %edx
	shll $NUMBER_BITS, %edx
	orl %r11d, %edx
	shlq $32, %rdx
	shrq $32, %rax
	orq %rax, %rdx
	movq %rdx, 8(%rsi)
	movq %rdi, 16(%rsi)
	movq $0, SLOT_GUARD(%rcx)
	.endm

	/* Step A3. rax: the old value of cur. Continues at 6, or at 5 if the event is lost. */
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
	 * The common case. rsp + up is the stack pointer to record; the number is in r11d. It uses
	 * rax, rcx, rdx, rsi, rdi and the flags (and r11, after the last point where C may be
	 * called). It falls through to 5 when the record is written, and jumps to 8 if nothing has
	 * happened.
	 */
	.macro record kind, up
	/* step 1 */
	slot_of_thread
2:
	write_record \kind, \up
5:
	.endm

	/* Puts the block of the slot in rcx into rsi. The process's own table says which block that
	 * is. Zero flag: the slot has none. Uses rdi. */
	.macro block_of_slot
	movq %rcx, %rsi
	subq rt_slots(%rip), %rsi
	leaq rt_blocks(%rip), %rdi
	shrq $SLOT_SHIFT - 3, %rsi
	movq (%rdi, %rsi), %rsi
	testq %rsi, %rsi
	.endm

	/*
	 * runtime/meters.c: holds the guard while it works in the block. rcx: slot; edi: the
	 * session's number, with its mark. If the slot now belongs to another session, nothing has
	 * been done. rdx: the duty's word, which names a place in the blocks. This word and the
	 * frames are shared memory, so their values are checked against the bounds in rt_private.
	 * rsi: the block, which the process itself has noted.
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

	/* Enters a frame. rcx: slot; rdx: the duty's word; rsi: block */
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

	/* Leaves a frame. The topmost frame must be the one that ends, and the frame below it, or
	 * the head, must be its caller's. Otherwise C searches for them. rsp + up is the frame's
	 * stack pointer. A function may have moved its stack pointer in front of its entry site
	 * (tail 1). Then rsp + up is the caller's stack pointer: the frame's lies below it, and the
	 * caller's frame does not. */
	.macro leave_frame up, tail=0
	movq METERS_TOP(%rsi), %rdi
	testq %rdi, %rdi
	jz 7f
	cmpq rt_private + PRIVATE_FRAMES(%rip), %rdi
	ja 7f
	/* uses the word that was checked, not what the frame says later */
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
	/* C handles durations above the last bound, and negative ones, where two processors' clocks
	 * disagree */
	movq %rax, %rdx
	shrq $HIST_SHIFT + HIST_LAST, %rdx
	jnz 7f
	movq %rax, %rdx
	subq METERS_FRAMES - METERS_FRAME + FRAME_INNER(%rdi), %rdx
	jb 7f
	movq $0, METERS_FRAMES - METERS_FRAME + FRAME_SP(%rdi)
	addq %rax, METERS_FRAMES - 2 * METERS_FRAME + FRAME_INNER(%rdi)
	/* From here on C is not called, so the number is not needed any more. After the new top is
	 * stored, the frame belongs to handlers. */
	movl -64(%rsp), %r11d
	subq $METERS_FRAME, METERS_TOP(%rsi)
	addq %r11, %rsi
	addq %rax, HIST_SUM - DUTY_HIST(%rsi)
	addq %rdx, HIST_SELF - DUTY_HIST(%rsi)
	/* a duration below 2^31 is its own packed form */
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
3:	/* durations that are too short for bucket 1 go to bucket 0 */
	orl $1 << (HIST_SHIFT - 1), %edi
	bsrl %edi, %edi
	/* If the address depended on the time, all loads behind this store would wait until the
	 * time is known. That is a quarter of the whole cost. Mostly the bucket is that of the last
	 * time, and the processor can predict that. */
	movl HIST_RECENT - DUTY_HIST(%rsi), %eax
	cmpl %eax, %edi
	je 3f
	movl %edi, HIST_RECENT - DUTY_HIST(%rsi)
	movl %edi, %eax
3:	incl HIST_BUCKETS - DUTY_HIST - 4 * (HIST_SHIFT - 1)(%rsi, %rax, 4)
	.endm

	/*
	 * flow.h: jumps to 2 if the event lies within a function that was named, to 4 if it does
	 * not, and to 8 where that begins or may end, which C decides. rcx: slot. The process's own
	 * table says where the thread is; the rules are shared memory, and what they say is checked
	 * as in C.
	 */
	.macro is_within kind, up
	movq %rcx, %rdi
	subq rt_slots(%rip), %rdi
	leaq rt_flows(%rip), %rax
	shrq $SLOT_SHIFT - FLOW_SHIFT, %rdi
	addq %rax, %rdi
	leaq \up(%rsp), %rdx
	.if \kind == 1
	/* where the function's return address lies, if the rule tells */
	rule_of_number eax, 8f
	cmpq $0, FLOW_BASE(%rdi)
	jne 3f
	testl $RULE_WITHIN << 16, %eax
	jz 4f
	jmp 8f
3:	testl $FLOW_ELSEWHERE, FLOW_STATE(%rdi)
	jnz 8f
	cmpq FLOW_SP(%rdi), %rdx
	jae 8f
	movzwl %ax, %eax
	addq %rax, %rdx
	cmpq FLOW_BASE(%rdi), %rdx
	jae 8f
	jmp 2b
	.else
	cmpq $0, FLOW_BASE(%rdi)
	je 4f
	testl $FLOW_ELSEWHERE, FLOW_STATE(%rdi)
	jnz 8f
	cmpq FLOW_SP(%rdi), %rdx
	jae 8f
	jmp 2b
	.endif
	.endm

	/*
	 * At 9: another session, or a session with modes. Coarse time alone comes first. C handles
	 * filters, but for call sites alone. Then the duty of the number decides. Jumps back to 5
	 * when it is done, or leaves.
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
	jnz 9f
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
	/* a sample may continue in this function, or end there (fperf_chain.c, rule 13) */
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
	/* Mostly no call has jumped to the function (open_calls.h, rule 10). The block is only
	 * read. */
10:	cmpl $DUTY_JOIN, %eax
	jne 8f
	testb $DUTY_JUMP_BIT, %dl
	jz 11f
	/* a function that is only counted has no open call */
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
	/* the function is logged */
4:	testb $MODE_COARSE, SLOT_MODES(%rcx)
	jz 2b
	jmp 1b
	/* a careful session: one of call sites alone has nothing else to look at; one that records
	 * within functions alone looks where the thread is */
9:	movl SLOT_MODES(%rcx), %edx
	andl $CAREFUL_MODES, %edx
	cmpl $MODE_CAREFUL | MODE_SITES, %edx
	jne 12f
	.if \kind == 1
	write_site \up
	jmp 5b
	.else
	jmp 2b
	.endif
12:	cmpl $MODE_CAREFUL | MODE_WITHIN | MODE_ALONE, %edx
	jne 8f
	is_within \kind, \up
4:	movq %rdx, FLOW_LAST(%rdi)
	incq SLOT_FILTERED(%rcx)
	jmp 5b
	.endm

	/* 7: gives the guard back: for a hook that comes now, nothing has begun. 6: last_sp has
	 * been set, but a handler has recorded in the meantime, maybe as the outermost hook (if it
	 * took the guard for stale). So the next record must be an extended one. */
	.macro give_back kind, up, leave
	by_modes \kind, \up, \leave
6:	movq $-1, SLOT_EPOCH(%rcx)
7:	movq $0, SLOT_GUARD(%rcx)
8:
	.endm
