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

/* Linker names of functions, without suffixes of the compiler, each once, sorted. Whoever has built
 * the program has chosen them: they may hold anything. */
struct ip_callees {
	char **names;
	size_t n;
	char *text;    /* what they point into */
	bool pointers; /* see ip_callees_find() */
};

/* Finds the callees of all functions that have that linker name (suffixes of the compiler do not
 * matter), and of the functions that have points of that name in them. pointers: the functions seem
 * to call others through pointers as well, or callees to jump so at their end, which cannot be seen
 * in the code. The process is only read. The caller clears *ret in any case. Returns 0, or -1 with
 * an error. */
int ip_callees_find(pid_t pid, const char *linker_name, struct ip_callees *ret);

/* The same for all functions with probes of the process; ret_points: the names of all its points,
 * NULL: they are not wanted. */
int ip_callees_all(pid_t pid, struct ip_callees *ret, struct ip_callees *ret_points);

void ip_callees_clear(struct ip_callees *callees);

/* The selection that means them; malloc'ed, NULL with an error. */
char *ip_callees_selection(const struct ip_callees *callees);

#endif
