/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which functions with probes a function calls, as far as its machine code in the process
 * tells. It finds direct calls and tail jumps, also through the linker's stubs and tables (those
 * that are bound). Calls through pointers, virtual functions among them, cannot be seen in the
 * code.
 *
 * There is no disassembler here. At each byte the search tries to read a call. It takes the call if
 * it leads to the very first byte of a function that has probes. That four bytes of something else
 * look like such a call by chance is one case in millions, and would do no harm.
 */
#ifndef IP_CALLEES_H
#define IP_CALLEES_H

#include <stddef.h>
#include <sys/types.h>

/* Finds the callees of all functions that have that linker name (suffixes of the compiler do not
 * matter). *ret: a selection that means the callees, which the caller frees; NULL if there are
 * none. *ret_n: how many. The process is only read. 0, or -1 with an error. */
int ip_callees(pid_t pid, const char *linker_name, char **ret, size_t *ret_n);

#endif
