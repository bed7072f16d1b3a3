/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with a site of every form and with every set of live registers, written by hand (exits have an entry in front, else they
 * would be taken for thunks), and the function that calls them (unwind_steps.c, test_unwinding.py). What the unwinder must find is known exactly: `middle` keeps its stack pointer and fills the
 * registers that calls preserve.
 */
#define S(x) #x

/* The table of sites as iprobe's compilers write it (coldpatch/sites/site_table.h). */
#define SITE(bytes, kind, length, form, regs)                                                                \
	"1:	.byte " bytes "\n"                                                                            \
	"	.pushsection .pdr.iprobe, \"o\", @progbits, .text\n"                                         \
	"	.quad 1b; .byte " S(kind) ", " S(length) ", " S(form) ", " S(regs) "; .long 0xffffffff\n" \
	"	.popsection\n"
#define NOP5	"0x0f, 0x1f, 0x44, 0, 0"
#define NOP6	"0x66, 0x0f, 0x1f, 0x44, 0, 0"
#define RETNOP5 "0xc3, 0x0f, 0x1f, 0x40, 0"
#define RETNOP6 "0xc3, 0x0f, 0x1f, 0x44, 0, 0"

#define BEGIN(name)                                                                                          \
	"	.globl " name "\n	.type " name ", @function\n" name ":\n	.cfi_startproc\n"
#define ENTRY	  SITE(NOP5, 1, 5, 0, 1)
#define END(name) "	.cfi_endproc\n	.size " name ", . - " name "\n"

/* In the middle of a body: rbx has a value of its own, the stack is not where it was, the red zone is in use. */
#define BODY(name, entry, site)                                                                                     \
	BEGIN(name) entry                                                                                    \
	"	pushq %rbx\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbx, -16\n"                      \
	"	movl $0x77, %ebx\n"                                                                          \
	"	movq %rbx, -8(%rsp)\n	movq %rbx, -128(%rsp)\n	stc\n" site                                  \
	"	popq %rbx\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore rbx\n	ret\n" END(name)

__asm__("	.text\n"
	BEGIN("first_entry") SITE(NOP5, 1, 5, 0, 1) "	ret\n" END("first_entry")
	BEGIN("last_return") ENTRY "	movl $1, %eax\n" SITE(NOP5, 2, 5, 0, 2) "	ret\n" END("last_return")
	BEGIN("tail_jump") ENTRY SITE(NOP5, 3, 5, 0, 3) "	jmp last_return\n" END("tail_jump")
	BEGIN("tail_return") ENTRY "	movl $1, %eax\n" SITE(RETNOP5, 3, 5, 1, 0) END("tail_return")
	BEGIN("tail_return_6") ENTRY "	movl $1, %eax\n" SITE(RETNOP6, 3, 6, 1, 0) END("tail_return_6")
	BODY("call_entry", "", SITE(NOP5, 1, 5, 0, 0))
	BODY("call_exit_6", ENTRY, SITE(NOP6, 2, 6, 0, 0))
	BODY("all_entry", "", SITE(NOP5, 1, 5, 0, 3))
	BODY("all_exit_6", "", SITE(NOP6, 2, 6, 0, 3))
	BODY("jumping_entry", "", SITE(NOP5, 1, 5, 2, 3))
	BODY("jumping_exit_6", "", SITE(NOP6, 2, 6, 2, 3))
	/* rdi: what to call. The pushes leave the stack aligned at the call. */
	BEGIN("middle")
	"	pushq %rbx\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbx, -16\n"
	"	pushq %rbp\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset rbp, -24\n"
	"	pushq %r12\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r12, -32\n"
	"	pushq %r13\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r13, -40\n"
	"	pushq %r14\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r14, -48\n"
	"	pushq %r15\n	.cfi_adjust_cfa_offset 8\n	.cfi_offset r15, -56\n"
	"	subq $8, %rsp\n	.cfi_adjust_cfa_offset 8\n"
	"	movl $0x33, %ebx\n	movl $0x66, %ebp\n	movl $0x1212, %r12d\n	movl $0x1313, %r13d\n"
	"	movl $0x1414, %r14d\n	movl $0x1515, %r15d\n"
	"	movq middle_sp@GOTPCREL(%rip), %rax\n	movq %rsp, (%rax)\n"
	"	call *%rdi\n"
	"middle_returned:\n"
	"	addq $8, %rsp\n	.cfi_adjust_cfa_offset -8\n"
	"	popq %r15\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r15\n"
	"	popq %r14\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r14\n"
	"	popq %r13\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r13\n"
	"	popq %r12\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore r12\n"
	"	popq %rbp\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore rbp\n"
	"	popq %rbx\n	.cfi_adjust_cfa_offset -8\n	.cfi_restore rbx\n	ret\n" END("middle")
	"	.data\n	.p2align 3\n	.globl middle_sp\n	.type middle_sp, @object\n	.size middle_sp, 8\n"
	"middle_sp:	.quad 0\n	.globl middle_return\n	.type middle_return, @object\n"
	"	.size middle_return, 8\nmiddle_return:	.quad middle_returned\n	.text\n");
