/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and reading whole files that somebody else named: never blocks on a FIFO,
 * never reads more than it was told to.
 */
#ifndef IP_FILE_H
#define IP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* Opens a regular file for reading, close-on-exec. Returns the descriptor (the caller's) and its size in
 * bytes, or -1 with an error: cannot open, a directory, not a regular file. */
int ip_open_regular(const char *path, uint64_t *ret_size);

/* The checks of ip_open_regular() on a descriptor that is already open. 0 or -1. */
int ip_check_regular(int fd, const char *path, uint64_t *ret_size);

/* Reads size bytes at offset, leaving the descriptor's position alone. 0, or -1 with an error (a short file
 * is one). */
int ip_read_at(int fd, const char *path, uint64_t offset, void *buffer, size_t size);

/* Reads all of a file, pipes included, up to max bytes; more is an error. The text (malloc'ed, the caller's)
 * is followed by a NUL that *ret_size does not count. 0 or -1. */
int ip_read_text(const char *path, size_t max, char **ret, size_t *ret_size);

#endif
