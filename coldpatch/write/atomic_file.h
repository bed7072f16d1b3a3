/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a file by a new one in one step: the new file is written beside it without a name, gets
 * one, and takes the place of the old. Until then the old file is untouched; whoever has it open or
 * runs it keeps it.
 *
 * The path is looked up once. Whoever can rename something beside the file, or in a directory of
 * his above it, can make the replacement fail, and cannot lead it elsewhere: nothing but the file
 * that was there at the start is replaced.
 */
#ifndef COLD_ATOMIC_FILE_H
#define COLD_ATOMIC_FILE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/dir.h"

struct cold_atomic_file {
	int fd;			   /* write here */
	int old;		   /* what is to be replaced, O_PATH; -1: there is nothing */
	char *target;		   /* for messages */
	struct ip_dir_place place; /* symbolic links followed */
	/* name on disk, where the file system cannot do without; "": none yet */
	char temp[NAME_MAX + 1];
};

#define COLD_NEW_FILE_NONE                                                                         \
	{                                                                                          \
		.fd = -1, .old = -1, .place = {.parent = -1 }                                      \
	}

/* Starts a new file that is to stand at path. source: what stands there must be the file open on
 * it; -1: a file of ours, or none. 0, or -1 with an error. */
int cold_atomic_file_open(const char *path, int source, struct cold_atomic_file *ret);

/* The same of a place that is known, and is taken over: a file of ours, or none. path: for
 * messages. */
int cold_atomic_file_open_at(const char *path, struct ip_dir_place *place,
			     struct cold_atomic_file *ret);

/* Gives it the permissions of the file open on fd, whose state is st; with everything also
 * owner, group, extended attributes and times. To be called after the last write. -1 where
 * something could not be kept. */
int cold_atomic_file_resemble(struct cold_atomic_file *file, int fd, const struct stat *st,
			      bool everything);

/* Puts it in its place. On failure the old file stands and the new one is gone. */
int cold_atomic_file_commit(struct cold_atomic_file *file);

/* Gives up whatever is not committed. Safe at any time, also twice. */
void cold_atomic_file_release(struct cold_atomic_file *file);

/* Writes it all, or -1 with an error that names the target. */
int cold_atomic_file_write(struct cold_atomic_file *file, const void *data, size_t size,
			   off_t offset);

#endif
