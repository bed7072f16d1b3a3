/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Separate debug information. libdwfl looks for it by the callbacks here. The names come from ELF
 * files that a target or a trace has named. So each name is looked up beneath one root directory,
 * and only a regular file is opened.
 *
 *   1. By build-id: where the user says, and in /usr/lib/debug/.build-id of this process's root,
 *      and of the target's.
 *   2. By the name in .gnu_debuglink: beside the module, in .debug beside it, and in /usr/lib/debug
 *      under the path of the module's directory.
 *   3. The file that this file shares with others (.gnu_debugaltlink, made by dwz -m). What the
 *      link says of /usr/lib/debug is looked up below the folder whose .build-id has this file,
 *      where a package was unpacked but not installed. Then come the link's path in the root that
 *      has this file, the directory of this file, the link's path below /usr/lib/debug of both
 *      roots, and what 1 says.
 *
 * A file that is found by 1 or 2 must have the module's build-id, one that is found by 3 that of
 * the link. So no separate file is found for a module without a build-id.
 */
#ifndef IP_DEBUG_FILE_H
#define IP_DEBUG_FILE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>

/* The argument of dwfl_begin(). */
extern const Dwfl_Callbacks ip_debug_file_callbacks;

struct ip_debug_file_search {
	/* root directory to look names up in, O_PATH; -1: that of this process */
	int root;
	bool found_shared; /* the file of shared debug information has been found */
	/* of the callbacks: the root in which the module's debug information was found; libdwfl is
	 * asked for what it has found so far */
	int file_root;
	bool asked;
	/* the i-th path, malloc'ed, that the user names for debug information of this build-id;
	 * NULL: no more. It is looked up before all others, from the root of this process; NULL:
	 * there is none */
	char *(*named)(size_t i, const uint8_t *id, size_t size);
};

/* Sets what the callbacks use to search for the module. It must stay valid. Without this call they
 * use the root of this process. */
void ip_debug_file_set_search(Dwfl_Module *module, struct ip_debug_file_search *search);

/* Returns the name of a shared file that debug information of the module refers to, and that was
 * not found; NULL: none is missing. The name is part of the debug information. libdw would search
 * for that file by itself, wherever the names lead. To be called after dwfl_module_getdwarf(). */
const char *ip_debug_file_lacks_shared(Dwarf *dwarf, const struct ip_debug_file_search *search);

#endif
