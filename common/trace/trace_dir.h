/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a trace, judged by its name and its files: whether it may be moved away or
 * removed to make place for another trace. It is a trace of one process, or has the traces of
 * several in sub-directories (common/trace/trace_members.h).
 *
 * Only files that are known by name as files of a trace are ever removed, and only if there is
 * nothing else in the directory. Everything is checked before the first file is removed.
 */
#ifndef IP_TRACE_DIR_H
#define IP_TRACE_DIR_H

#include "common/dir.h"

/* Whether the directory is a trace, or empty. */
bool ip_trace_dir_is_one(int fd);

/* Checks that the directory contains only files of a trace. Returns 0, or -1 with an error that
 * names the first other file. */
int ip_trace_dir_check(int fd, const char *path);

/* Removes the files, and the directory, which is open on fd and has the name. Returns 0, or -1 with
 * an error. */
int ip_trace_dir_remove(int parent, const char *name, int fd, const char *path);

#endif
