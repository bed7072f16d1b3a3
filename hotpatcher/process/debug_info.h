/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug information (DWARF) of a module: the module's own, or a file of its own found by build-id
 * or debuglink beside it and under /usr/lib/debug. Files are input from outside; libdw checks them.
 */
#ifndef IP_DEBUG_INFO_H
#define IP_DEBUG_INFO_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"

struct ip_debug_info;

/* 1; 0: there is none; -1 with an error. */
int ip_debug_info_open(const struct ip_module *module, pid_t pid, struct ip_debug_info **ret);
void ip_debug_info_close(struct ip_debug_info *info);

/* A function as debug information tells of it. */
struct ip_debug_function {
	Dwarf_Die die;
	uint64_t entry; /* address of its first instruction, as its locations have it */
	/* its name in the symbol table, with what the compiler has added (.isra.0); NULL:
	 * unknown */
	const char *symbol;
};

/* Looks for the functions that begin at the n link-time addresses, ascending, and calls found
 * for each that is there: maybe several times, where the linker has folded functions into one.
 * An address may lie a few bytes behind the function's begin (endbr64). */
void ip_debug_info_find(struct ip_debug_info *info, const uint64_t *addresses, size_t n,
			void (*found)(void *context, size_t index,
				      struct ip_debug_function *function),
			void *context);

#endif
