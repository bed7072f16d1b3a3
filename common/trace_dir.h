/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of a trace, as its name and its files tell it: what may be moved away or removed
 * for another.
 *
 * Only what is known by name as a file of a trace is ever removed, and only where there is nothing
 * else: all of it is looked at before the first file goes.
 */
#ifndef IP_TRACE_DIR_H
#define IP_TRACE_DIR_H

#include "common/dir.h"

/* Whether it is a trace, or empty. */
bool ip_trace_dir_is_one(int fd);

/* Whether it has nothing but what is a trace's. 0, or -1 with an error that names the first other
 * thing. */
int ip_trace_dir_check(int fd, const char *path);

/* Removes the files, and the directory, which is fd and stands at the name. 0, or -1 with an
 * error. */
int ip_trace_dir_remove(int parent, const char *name, int fd, const char *path);

#endif
