/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of libstdc++ that are always inlined and whose class is instantiated in the library
 * only (extern template). No object file defines them. But clang passes their addresses to the
 * hooks of -finstrument-functions, so no program with a std::string in it links. This file is
 * linked from an archive, only where one of these functions is missing. Each function here does
 * what the one in libstdc++ does.
 */
	.macro string_use_local_data name
	.weak \name
	.hidden \name
	.type \name, @function
\name:
	lea 16(%rdi), %rax
	ret
	.size \name, . - \name
	.endm

	.text
	string_use_local_data _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE17_M_use_local_dataEv
	string_use_local_data _ZNSt7__cxx1112basic_stringIwSt11char_traitsIwESaIwEE17_M_use_local_dataEv

	.section .note.GNU-stack, "", @progbits
