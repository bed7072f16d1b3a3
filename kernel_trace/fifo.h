/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a descriptor of another process is a FIFO: a pipe with a path (fifo(7)), which the name
 * of the descriptor does not tell from a file.
 */
#ifndef IP_FIFO_H
#define IP_FIFO_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns false also where that cannot be told. It never waits for a file system: neither for one
 * that a process of the user serves (FUSE), nor for one of the network. */
bool ip_is_fifo(pid_t tid, int fd);

/* Whether mounts of this type answer by themselves. */
bool ip_file_system_is_local(const char *type);

/* Finds the type of the mount with this number in the text of a /proc/PID/mountinfo line by line.
 * Returns whether the line is about it; ret: the type, cut to its size. */
bool ip_mount_type(const char *line, int mount, char ret[32]);

#endif
