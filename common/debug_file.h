/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate debug information, looked for by libdwfl through us: the names come out of ELF files
 * that a target or a trace has named, so each is looked up beneath one root directory, and only a
 * regular file is opened.
 *
 *   1. by build-id, in /usr/lib/debug/.build-id, of our root and of the target's
 *   2. by the name in .gnu_debuglink: beside the module, in .debug beside it, and in /usr/lib/debug
 *      behind its directory
 *   3. what that file shares with others (.gnu_debugaltlink), by its path
 *
 * What is found by 1 and 2 must have the module's build-id: one without has no separate file for
 * us.
 */
#ifndef IP_DEBUG_FILE_H
#define IP_DEBUG_FILE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* What dwfl_begin() takes. */
extern const Dwfl_Callbacks ip_debug_file_callbacks;

struct ip_debug_file_search {
	int root;	   /* of which names are, O_PATH; -1: ours */
	bool found_shared; /* what debug information shares with others has been found for it */
};

/* What the callbacks search for the module by, which must stay there; without this call: our
 * root. */
void ip_debug_file_set_search(Dwfl_Module *module, struct ip_debug_file_search *search);

/* Whether debug information of the module refers to a file that it shares and that was not
 * found: libdw would look for that by itself, wherever the names lead. To be asked behind
 * dwfl_module_getdwarf(). */
bool ip_debug_file_lacks_shared(Dwarf *dwarf, const struct ip_debug_file_search *search);

#endif
