/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the probe list of a module that does not carry it: stripped and shipped.
 *
 *   1. what the user named (--list): files, or directories of lists
 *   2. MODULE.probes beside the module, as the process sees it
 *   3. the directories in IPROBE_LIST_PATH, then IP_PROBE_LIST_SEARCH_DEFAULT; for each also as the
 *      process sees it
 *
 * In a directory a list lies by its build-id, .build-id/ab/cdef.probes (as separate debug
 * information does) or abcdef.probes. A list that is found by name (1, 2) but belongs to another
 * build is refused.
 */
#ifndef IP_PROBE_LIST_SEARCH_H
#define IP_PROBE_LIST_SEARCH_H

#include <sys/types.h>

#include "common/elf_file.h"
#include "common/probe_list.h"

#define IP_PROBE_LIST_SEARCH_DEFAULT "/var/lib/iprobe/probes:/usr/lib/iprobe/probes:/usr/lib/debug"

/* Remembers, for all modules that this command will look at, a file or directory that the user
 * named. -1 with an error where it is neither, or no list. path is borrowed. */
int ip_probe_list_search_add(const char *path);

/* The list of a module. pid: of a process that has it mapped, 0: none; path: as that process sees
 * it. 1 found; 0 none; -1 error. */
int ip_probe_list_search_find(pid_t pid, const char *path, const struct ip_elf_file *elf,
			      struct ip_probe_list **ret);

/* The module carries its list: one of the same build that the user named is not needed, but no
 * mistake. */
void ip_probe_list_search_not_needed(const struct ip_elf_file *elf);

/* -1, with an error that names it, where the user named a list that fits none of the modules looked
 * at so far. */
int ip_probe_list_search_check_used(const char *what);

#endif
