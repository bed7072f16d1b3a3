/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files that a process names: by its mappings, or by paths in them. What a name leads to is
 * found without opening it (O_PATH), beneath the root of the process. Only a regular file is opened
 * then, and nothing else is ever touched.
 */
#ifndef IP_TARGET_FILES_H
#define IP_TARGET_FILES_H

#include <stdbool.h>

#include "hotpatcher/process/target.h"

/* Opens the process's root directory (O_PATH). The caller closes the descriptor. -1 with errno. */
int ip_target_root(pid_t pid);

/* Turns a path of the process's maps into the path from the process's own root: the kernel shows
 * paths as we see them, where we see them. The result is a part of path. */
const char *ip_target_path(pid_t pid, const char *path);

/* Opens the file of a mapping, for reading. The caller closes the descriptor. *ret_exact: it is the
 * mapped file for certain; else it is the file that has the path now. -1 with an error. */
int ip_target_open_mapping(pid_t pid, const struct ip_mapping *m, bool *ret_exact);

/* Whether files that the process names can do nothing that our user could not do: the process has
 * our user and our root directory. */
bool ip_target_files_are_ours(pid_t pid);

#endif
