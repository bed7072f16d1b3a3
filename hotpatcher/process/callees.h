/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions with probes a function calls, as far as its machine code in the process tells:
 * direct calls and tail jumps, through the linker's stubs and tables too (those that are bound).
 * Calls through pointers, virtual functions among them, cannot be seen there.
 *
 * There is no disassembler in this: at each byte a call is tried, and taken where it leads to the
 * very first byte of a function that has probes. That four bytes of something else do so by chance
 * is one case in millions, and would do no harm.
 */
#ifndef IP_CALLEES_H
#define IP_CALLEES_H

#include <stddef.h>
#include <sys/types.h>

/* Of all functions that have that linker name (suffixes of the compiler do not matter). *ret: a
 * selection that means the callees, malloc'ed, NULL where there are none; *ret_n: how many. The
 * process is only read. 0, or -1 with an error. */
int ip_callees(pid_t pid, const char *linker_name, char **ret, size_t *ret_n);

#endif
