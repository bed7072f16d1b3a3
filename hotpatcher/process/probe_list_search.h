/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the probe list of a module that does not carry its list: it was stripped and shipped. The
 * places, in this order:
 *
 *   1. what the user named (--list): files, or directories of lists
 *   2. MODULE.probes beside the module, as the process sees it
 *   3. the directories in IPROBE_LIST_PATH, then those in IP_PROBE_LIST_SEARCH_DEFAULT; each
 *      directory as we see it and, if its path is absolute, also as the process sees it
 *   4. the separate debug information that the module names (.gnu_debuglink), as the process sees
 *      it: beside the module, in .debug/ there, and below /usr/lib/debug
 *
 * In a directory the name of a list is its build-id: .build-id/ab/cdef.probes or abcdef.probes.
 * Separate debug information has what strip took off a module, its probe list too:
 * .build-id/ab/cdef.debug, in a package of debug symbols. Where there is none that can be read,
 * there is no list there.
 *
 * A file that the user named is used for modules of its own build-id only. A list that is found
 * anywhere else, but belongs to another build, is an error. The caller checks what the list says,
 * as it does for a list that the module carries.
 */
#ifndef IP_PROBE_LIST_SEARCH_H
#define IP_PROBE_LIST_SEARCH_H

#include <sys/types.h>

#include "common/elf/elf_file.h"
#include "common/elf/probe_list.h"

#define IP_PROBE_LIST_SEARCH_DEFAULT "/var/lib/iprobe/probes:/usr/lib/iprobe/probes:/usr/lib/debug"

/* Remembers a file or directory that the user named, for all modules that this command will look
 * at. path is borrowed. -1 with an error if it does not exist, or is a file but no list. */
int ip_probe_list_search_add(const char *path);

/* Finds the list of a module. pid: a process that has the module mapped; 0: none. path: the
 * module's, as that process sees it. 1: *ret has the list, and the caller destroys it; 0: there is
 * none; -1 with an error. */
int ip_probe_list_search_find(pid_t pid, const char *path, struct ip_elf_file *elf,
			      struct ip_probe_list **ret);

/* The i-th path at which the user says that debug information of a build lies: a file of its own
 * (--list FILE), or by build-id in a directory (--list DIR, IPROBE_LIST_PATH). Nothing need be
 * there. malloc'ed; NULL: no more, or out of memory. */
char *ip_probe_list_search_debug_path(size_t i, const uint8_t *build_id, size_t size);

/* Tells that the module carries its list. A list of the same build that the user named is not
 * needed then, and is no mistake. */
void ip_probe_list_search_not_needed(const struct ip_elf_file *elf);

/* 0; -1 if the user named a list that fits none of the modules looked at so far. The error begins
 * with what and names the list. */
int ip_probe_list_search_check_used(const char *what);

#endif
