/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and reading whole files whose names come from outside. It never blocks on a FIFO, never
 * touches a device, and never reads more than it was told to. The file that a name leads to is
 * checked before it is opened for reading.
 */
#ifndef IP_FILE_H
#define IP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Opens a regular file for reading, close-on-exec. Returns the descriptor (the caller's) and its
 * size in bytes, or -1 with an error: cannot open, a directory, not a regular file. */
int ip_open_regular(const char *path, uint64_t *ret_size);

/* The same for a name in a directory (AT_FDCWD: any path). A symbolic link at its end is not
 * followed. path is for messages. */
int ip_open_regular_at(int dir, const char *name, const char *path, uint64_t *ret_size);

/* The checks of ip_open_regular() on a descriptor that is already open. 0 or -1. */
int ip_check_regular(int fd, const char *path, uint64_t *ret_size);

/* Reads size bytes at offset, and does not change the descriptor's position. Returns 0, or -1 with
 * an error. A file that is too short is an error. */
int ip_read_at(int fd, const char *path, uint64_t offset, void *buffer, size_t size);

/* Reads all of a file, pipes included, up to max bytes; more is an error. The text (malloc'ed, the
 * caller's) is followed by a NUL that *ret_size does not count. Returns 0 or -1. */
int ip_read_text(const char *path, size_t max, char **ret, size_t *ret_size);

/* The same for a regular file only: for places where another user may have put something, such as a
 * FIFO. */
int ip_read_regular_text(const char *path, size_t max, char **ret, size_t *ret_size);

/* access(2) by the effective ids, by which files are opened. access() asks for the real ids, which
 * are nobody's in a worker of iprobed for a member of its group. Returns 0, or -1 with errno. */
int ip_access(const char *path, int mode);

/* Finds what a path leads to for a process whose root directory is root (-1: that of this process).
 * Every step, symbolic links included, is looked up beneath root, and no step goes through a link
 * of /proc. Returns an O_PATH descriptor: nothing is opened yet. -1 with errno; ENOSYS or EPERM if
 * the kernel cannot do that (openat2, Linux 5.6), or may not. */
int ip_find_in_root(int root, const char *path);

/* Opens for reading what an O_PATH descriptor refers to, if it is a regular file. path is for
 * messages. Returns -1 with an error. */
int ip_reopen_regular(int found, const char *path, uint64_t *ret_size);

/* Raises the limit of files that this process may have open to the hard limit. Returns the limit
 * that there is then. */
uint64_t ip_descriptor_limit_raise(void);

#endif
