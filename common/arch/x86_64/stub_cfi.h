/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinding information of stubs, for every file that reserves room for them. It is one frame
 * description entry over the whole room. Its rules look at the program counter and at the bytes
 * there. C and assembler include this file.
 *
 *         .section .iprobe.stubs, "ax", @nobits
 *         .p2align 12
 *         .cfi_startproc
 *         .cfi_escape IP_STUB_CFI_CFA
 *         .cfi_escape IP_STUB_CFI_RA
 *         .skip SIZE
 *         .cfi_endproc
 *
 * The room must begin at a multiple of 32 bytes, and so must the jump stubs in it. In C,
 * IP_STUB_CFI_TEXT is the two lines in the middle. There is no personality, and no callee-saved
 * register changes. pc is the program counter, or the return address if the hook has been called.
 *
 *   Jump stub    (byte 48 at pc & ~31; site.c)
 *     CFA   the stack pointer of its site: rsp + 0, from byte 5 on + 128 (lea), from 10 on + 136
 *           (push), from 24 on + 0 (lea)
 *     RA    the site's end, to which the jump in bytes 24..28 of the stub goes. The stub was not
 *           called, so it has no return address on the stack
 *   Other stub
 *     CFA   rsp + 8; + 16 from byte 5 on if it begins with 68 (push)
 *     RA    at CFA - 8
 *   Tail stub: its first 16 bytes end with the lea that drops the number, and the others begin with
 *   the jump, so both halves are as other stubs are. The frame of the function has gone: RA is the
 *   function's own
 *
 * Memory is read only in aligned words of 8 bytes. Every unwinder can do that: libgcc, libunwind,
 * gdb, libdw. An unwinder that looks at a process from outside needs the process's memory for it. A
 * core file contains the stubs as private memory.
 */
#ifndef IP_X86_64_STUB_CFI_H
#define IP_X86_64_STUB_CFI_H

/* DW_CFA_def_cfa_expression, 70 bytes. DWARF allows a branch to the very end, but libdw requires an
 * operation there: hence the nop.
 *   breg16 0, const1s -32, and, deref, const1u 255, and, const1u 0x48, ne, bra 1f
 *   breg7 0, breg16 0, lit31, and                                     rsp, o = pc & 31
 *   dup, lit5, ge, over, lit24, ge, minus, lit7, shl, swap            128 where 5 <= o < 24
 *   dup, lit10, ge, swap, lit24, ge, minus, lit3, shl, plus, plus     8 where 10 <= o < 24
 *   skip 2f
 * 1: breg7 8, breg16 0, const1s -16, and, deref, const1u 255, and, const1u 0x68, eq
 *   breg16 0, lit15, and, lit5, ge, and, lit3, shl, plus
 * 2: nop */
#define IP_STUB_CFI_CFA                                                                            \
	0x0f, 0x46, 0x80, 0x00, 0x09, 0xe0, 0x1a, 0x06, 0x08, 0xff, 0x1a, 0x08, 0x48, 0x2e, 0x28,  \
		0x1e, 0x00, 0x77, 0x00, 0x80, 0x00, 0x4f, 0x1a, 0x12, 0x35, 0x2a, 0x14, 0x48,      \
		0x2a, 0x1c, 0x37, 0x24, 0x16, 0x12, 0x3a, 0x2a, 0x16, 0x48, 0x2a, 0x1c, 0x33,      \
		0x24, 0x22, 0x22, 0x2f, 0x18, 0x00, 0x77, 0x08, 0x80, 0x00, 0x09, 0xf0, 0x1a,      \
		0x06, 0x08, 0xff, 0x1a, 0x08, 0x68, 0x29, 0x80, 0x00, 0x3f, 0x1a, 0x35, 0x2a,      \
		0x1a, 0x33, 0x24, 0x22, 0x96

/* DW_CFA_val_expression for column 16, 40 bytes; the CFA is on the stack:
 *   breg16 0, const1s -32, and, deref, const1u 255, and, const1u 0x48, ne, bra 1f
 *   breg16 0, const1s -32, and, dup, plus_uconst 24, deref            e9 rel32 cc cc cc
 *   const1u 24, shl, const1u 32, shra, plus, plus_uconst 29           its target
 *   skip 2f
 * 1: lit8, minus, deref
 * 2: nop */
#define IP_STUB_CFI_RA                                                                             \
	0x16, 0x10, 0x28, 0x80, 0x00, 0x09, 0xe0, 0x1a, 0x06, 0x08, 0xff, 0x1a, 0x08, 0x48, 0x2e,  \
		0x28, 0x15, 0x00, 0x80, 0x00, 0x09, 0xe0, 0x1a, 0x12, 0x23, 0x18, 0x06, 0x08,      \
		0x18, 0x24, 0x08, 0x20, 0x26, 0x22, 0x23, 0x1d, 0x2f, 0x03, 0x00, 0x38, 0x1c,      \
		0x06, 0x96

#define IP_STUB_CFI_STRING(...) #__VA_ARGS__
#define IP_STUB_CFI_EXPAND(...) IP_STUB_CFI_STRING(__VA_ARGS__)
#define IP_STUB_CFI_TEXT                                                                           \
	"\t.cfi_escape " IP_STUB_CFI_EXPAND(                                                       \
		IP_STUB_CFI_CFA) "\n\t.cfi_escape " IP_STUB_CFI_EXPAND(IP_STUB_CFI_RA) "\n"

#endif
