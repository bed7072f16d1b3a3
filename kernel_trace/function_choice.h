/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses functions of the kernel by patterns (--kernel-functions), from the list of those that it
 * lets be traced (available_filter_functions of tracefs).
 *
 * Not chosen, and told by name: what no function is called; what the kernel has and does not let be
 * traced (notrace, inlined here, written in assembler); a name that several functions have, since a
 * probe would go to any of them.
 */
#ifndef IP_FUNCTION_CHOICE_H
#define IP_FUNCTION_CHOICE_H

#include "common/trace/kernel_functions.h"

/* patterns: as for -f; of 'lib:' items, modules of the kernel. available: the list, which is
 * changed. symbols: a file such as /proc/kallsyms, which is read where an item chooses nothing: by
 * it is told why. *ret: the caller clears it in any case. *ret_note: what was not chosen, a
 * line, malloc'ed; NULL: all was. Returns 0, or -1 with an error: none, or more than
 * IP_KERNEL_FUNCTIONS_MAX. */
int ip_function_choice_make(const char *patterns, char *available, const char *symbols,
			    struct ip_kernel_functions *ret, char **ret_note);

#endif
