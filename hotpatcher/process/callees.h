/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which functions with probes a function calls, as far as its machine code tells. It finds
 * direct calls and tail jumps, also through the linker's stubs and tables (those that are bound).
 * What a callee jumps to at its end counts, for it returns to the caller. Calls through pointers,
 * virtual functions among them, cannot be seen in the code.
 *
 * There is no disassembler here. At each byte the search tries to read a call. It takes the call if
 * it leads to the very first byte of a function that has probes. That four bytes of something else
 * look like such a call by chance is one case in millions, and would do no harm.
 */
#ifndef IP_CALLEES_H
#define IP_CALLEES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Finds the callees of all functions that have that linker name (suffixes of the compiler do not
 * matter). *ret: a selection that means the callees, which the caller frees; NULL if there are
 * none. *ret_n: how many. The process is only read. 0, or -1 with an error. */
int ip_callees(pid_t pid, const char *linker_name, char **ret, size_t *ret_n);

/* The same, and whether the functions seem to call others through pointers as well, or callees to
 * jump so at their end, which cannot be seen in the code. */
int ip_callees_and_pointers(pid_t pid, const char *linker_name, char **ret, size_t *ret_n,
			    bool *ret_pointers);

/* Finds the names of all functions with probes of the process, without suffixes of the compiler,
 * each once. *ret: an array, which the caller frees, of names, which point into *ret_text, which
 * the caller frees. 0, or -1 with an error. */
int ip_callees_all(pid_t pid, char ***ret, size_t *ret_n, char **ret_text);

#endif
