/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions with a site of every form and with every set of live registers, written by hand (exits
 * have an entry in front, else they would be taken for thunks), and the function that calls them
 * (unwind_steps.c, test_unwinding.py). What the unwinder must find is known exactly: `middle` keeps
 * its stack pointer and fills the registers that calls preserve.
 */
#define S(x) #x

/* The table of sites as iprobe's compilers write it (coldpatch/sites/site_table.h). */
#define SITE(bytes, kind, length, form, regs)                                                      \
	"1:\t.byte " bytes "\n"                                                                    \
	"\t.pushsection .pdr.iprobe, \"o\", @progbits, .text\n"                                    \
	"\t.quad 1b; .byte " S(kind) ", " S(length) ", " S(form) ", " S(                           \
		regs) "; .long 0xffffffff\n"                                                       \
		      "\t.popsection\n"
#define NOP5	"0x0f, 0x1f, 0x44, 0, 0"
#define NOP6	"0x66, 0x0f, 0x1f, 0x44, 0, 0"
#define RETNOP5 "0xc3, 0x0f, 0x1f, 0x40, 0"
#define RETNOP6 "0xc3, 0x0f, 0x1f, 0x44, 0, 0"
/* to a function of the same section */
#define JUMP(to) "0xe9; .long " to " - . - 4"

#define BEGIN(name) "\t.globl " name "\n\t.type " name ", @function\n" name ":\n\t.cfi_startproc\n"
#define ENTRY	    SITE(NOP5, 1, 5, 0, 1)
#define END(name)   "\t.cfi_endproc\n\t.size " name ", . - " name "\n"

/* In the middle of a body: rbx has a value of its own, the stack is not where it was, the red zone
 * is in use. */
#define BODY(name, entry, site)                                                                    \
	BEGIN(name)                                                                                \
	entry "\tpushq %rbx\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset rbx, -16\n"                 \
	      "\tmovl $0x77, %ebx\n"                                                               \
	      "\tmovq %rbx, -8(%rsp)\n\tmovq %rbx, -128(%rsp)\n\tstc\n" site                       \
	      "\tpopq %rbx\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore rbx\n\t"                   \
	      "ret\n" END(name)

__asm__("\t.text\n" BEGIN("first_entry") SITE(NOP5, 1, 5, 0, 1) "\tret\n" END("first_entry")
		BEGIN("last_return") ENTRY
	"\tmovl $1, %eax\n" SITE(NOP5, 2, 5, 0, 2) "\tret\n" END("last_return") BEGIN("tail_jump")
		ENTRY SITE(NOP5, 3, 5, 0, 3) "\tjmp last_return\n" END("tail_jump")
			BEGIN("tail_return") ENTRY "\tmovl $1, %eax\n" SITE(RETNOP5, 3, 5, 1, 0)
				END("tail_return") BEGIN("tail_return_6") ENTRY
	"\tmovl $1, %eax\n" SITE(RETNOP6, 3, 6, 1, 0) END("tail_return_6") BEGIN("own_return") ENTRY
	"\tmovl $1, %eax\n" SITE(RETNOP5, 2, 5, 1, 2) END("own_return") BEGIN("own_jump")
		ENTRY SITE(JUMP("own_return"), 3, 5, 3,
			   3) END("own_jump") BODY("call_entry", "", SITE(NOP5, 1, 5, 0, 0))
			BODY("call_exit_6", ENTRY,
			     SITE(NOP6, 2, 6, 0, 0)) BODY("all_entry", "", SITE(NOP5, 1, 5, 0, 3))
				BODY("all_exit_6", "", SITE(NOP6, 2, 6, 0, 3))
					BODY("jumping_entry", "", SITE(NOP5, 1, 5, 2, 3))
						BODY("jumping_exit_6", "", SITE(NOP6, 2, 6, 2, 3))
	/* no site of its own: a call into another library, by the PLT */
	BEGIN("library_call") "\tjmp getppid@PLT\n" END("library_call")
	/* rdi: what to call. The pushes leave the stack aligned at the call. */
	BEGIN("middle") "\tpushq %rbx\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset rbx, "
			"-16\n"
			"\tpushq %rbp\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset rbp, "
			"-24\n"
			"\tpushq %r12\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset r12, "
			"-32\n"
			"\tpushq %r13\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset r13, "
			"-40\n"
			"\tpushq %r14\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset r14, "
			"-48\n"
			"\tpushq %r15\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_offset r15, "
			"-56\n"
			"\tsubq $8, %rsp\n\t.cfi_adjust_cfa_offset 8\n"
			"\tmovl $0x33, %ebx\n\tmovl $0x66, %ebp\n\tmovl $0x1212, "
			"%r12d\n\tmovl $0x1313, %r13d\n"
			"\tmovl $0x1414, %r14d\n\tmovl $0x1515, %r15d\n"
			"\tmovq middle_sp@GOTPCREL(%rip), %rax\n\tmovq %rsp, (%rax)\n"
			"\tcall *%rdi\n"
			"middle_returned:\n"
			"\taddq $8, %rsp\n\t.cfi_adjust_cfa_offset -8\n"
			"\tpopq %r15\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore r15\n"
			"\tpopq %r14\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore r14\n"
			"\tpopq %r13\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore r13\n"
			"\tpopq %r12\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore r12\n"
			"\tpopq %rbp\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore rbp\n"
			"\tpopq %rbx\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore "
			"rbx\n\tret\n" END(
				"middle") "\t.data\n\t.p2align 3\n\t.globl middle_sp\n\t"
					  ".type middle_sp, @object\n\t.size middle_sp, 8\n"
					  "middle_sp:\t.quad 0\n\t.globl middle_return\n\t"
					  ".type middle_return, @object\n"
					  "\t.size middle_return, 8\nmiddle_return:\t.quad "
					  "middle_returned\n\t.text\n");
