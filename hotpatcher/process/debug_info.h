/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the debug information (DWARF) of a module. The information is in the module itself, or in a
 * separate file that is found by build-id or debuglink, beside the module and under /usr/lib/debug.
 * The files are input from outside; libdw checks them.
 */
#ifndef IP_DEBUG_INFO_H
#define IP_DEBUG_INFO_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "hotpatcher/process/modules.h"

struct ip_debug_info;

/* Opens the debug information of a module of the process pid. 1: *ret has it, and the caller closes
 * it; 0: there is none; -1 with an error. ret_lacks: NULL, or where to put the name of the file
 * that debug information of several modules shares, if that is what is missing: malloc'ed; else
 * NULL. */
int ip_debug_info_open(const struct ip_module *module, pid_t pid, struct ip_debug_info **ret,
		       char **ret_lacks);
void ip_debug_info_close(struct ip_debug_info *info);

/* A function as the debug information describes it. */
struct ip_debug_function {
	Dwarf_Die die;
	uint64_t entry; /* address of its first instruction, as the debug information has it */
	/* its name in the symbol table, with what the compiler has added (.isra.0); NULL:
	 * unknown */
	const char *symbol;
};

/* Looks for the functions that begin at the n link-time addresses, which must be ascending. found()
 * is called for each function that is there, with the index of its address: several times for one
 * address where the linker has folded functions into one. An address may lie a few bytes behind the
 * start of its function (endbr64). */
void ip_debug_info_find(struct ip_debug_info *info, const uint64_t *addresses, size_t n,
			void (*found)(void *context, size_t index,
				      struct ip_debug_function *function),
			void *context);

#endif
