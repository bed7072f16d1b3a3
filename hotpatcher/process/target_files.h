/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a process names: by its mappings, by paths in them. What a name leads to is found
 * without opening it (O_PATH), beneath the root of the process; only a regular file is then opened,
 * and nothing else is ever touched.
 */
#ifndef IP_TARGET_FILES_H
#define IP_TARGET_FILES_H

#include <stdbool.h>

#include "hotpatcher/process/target.h"

/* The process's root directory, O_PATH, to be closed by the caller. -1 with errno. */
int ip_target_root(pid_t pid);

/* What a path in its maps is from its own root on: the kernel shows paths as we see them, where we
 * do. A part of path. */
const char *ip_target_path(pid_t pid, const char *path);

/* The file of a mapping, for reading. *ret_exact: it is the mapped one for certain, else what has
 * its path by now. -1 with an error. */
int ip_target_open_mapping(pid_t pid, const struct ip_mapping *m, bool *ret_exact);

/* Whether files that it names can do nothing that who we are could not do himself: it has our user
 * and our root directory. */
bool ip_target_files_are_ours(pid_t pid);

#endif
