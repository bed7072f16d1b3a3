/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and reading whole files that somebody else named: never blocks on a FIFO, never touches a
 * device, never reads more than it was told to. What a name leads to is looked at before it is
 * opened for reading.
 */
#ifndef IP_FILE_H
#define IP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Opens a regular file for reading, close-on-exec. Returns the descriptor (the caller's) and its
 * size in bytes, or -1 with an error: cannot open, a directory, not a regular file. */
int ip_open_regular(const char *path, uint64_t *ret_size);

/* The same of a name in a directory (AT_FDCWD: any path). No symbolic link is followed at its end;
 * path is what it is called. */
int ip_open_regular_at(int dir, const char *name, const char *path, uint64_t *ret_size);

/* The checks of ip_open_regular() on a descriptor that is already open. 0 or -1. */
int ip_check_regular(int fd, const char *path, uint64_t *ret_size);

/* Reads size bytes at offset, leaving the descriptor's position alone. 0, or -1 with an error (a
 * short file is one). */
int ip_read_at(int fd, const char *path, uint64_t offset, void *buffer, size_t size);

/* Reads all of a file, pipes included, up to max bytes; more is an error. The text (malloc'ed,
 * the caller's) is followed by a NUL that *ret_size does not count. 0 or -1. */
int ip_read_text(const char *path, size_t max, char **ret, size_t *ret_size);

/* The same of a regular file alone: where others may have put something, a FIFO say. */
int ip_read_regular_text(const char *path, size_t max, char **ret, size_t *ret_size);

/* What a path leads to for a process whose root directory is root (-1: ours): every step,
 * symbolic links included, is looked up beneath it, and none goes through a link of /proc's.
 * O_PATH: nothing is opened yet. -1 with errno; ENOSYS or EPERM where the kernel cannot do that
 * (openat2, Linux 5.6) or may not. */
int ip_find_in_root(int root, const char *path);

/* What an O_PATH descriptor stands for, opened for reading where it is a regular file. path: what
 * it is called. -1 with an error. */
int ip_reopen_regular(int found, const char *path, uint64_t *ret_size);

#endif
