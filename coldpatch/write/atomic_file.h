/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces a file by a new one in one step. The new file is written beside the old one, without a
 * name. Then it gets a name and takes the old file's place. Until then the old file is untouched,
 * and a process that has it open or runs it keeps it.
 *
 * The path is looked up once. A user who can rename files beside the file, or in one of his own
 * directories above it, can make the replacement fail. He cannot lead it elsewhere: only the file
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
	int fd;			   /* descriptor for writing */
	int old;		   /* the file to be replaced, O_PATH; -1: there is none */
	char *target;		   /* for messages */
	struct ip_dir_place place; /* symbolic links followed */
	/* name on disk, if the file system needs one; "": none yet */
	char temp[NAME_MAX + 1];
};

#define COLD_NEW_FILE_NONE                                                                         \
	{                                                                                          \
		.fd = -1, .old = -1, .place = {.parent = -1 }                                      \
	}

/* Starts a new file for path. source: a descriptor of the file that must be at path; -1: the file
 * at path must be the caller's own, or there is none. Returns 0, or -1 with an error. */
int cold_atomic_file_open(const char *path, int source, struct cold_atomic_file *ret);

/* Like cold_atomic_file_open() with source -1, for a place that is known. It takes the place over.
 * path: for messages. */
int cold_atomic_file_open_at(const char *path, struct ip_dir_place *place,
			     struct cold_atomic_file *ret);

/* Gives the new file the permissions of the file that is open on fd, whose state is st. everything:
 * also its owner, group, extended attributes and times. Call this after the last write. Returns -1
 * with an error if something could not be kept. */
int cold_atomic_file_resemble(struct cold_atomic_file *file, int fd, const struct stat *st,
			      bool everything);

/* Puts the new file in its place. After a failure the old file is still there and the new one is
 * removed. */
int cold_atomic_file_commit(struct cold_atomic_file *file);

/* Gives up a file that is not committed. It may be called at any time, also twice. */
void cold_atomic_file_release(struct cold_atomic_file *file);

/* Writes all the data. Returns 0, or -1 with an error that names the target. */
int cold_atomic_file_write(struct cold_atomic_file *file, const void *data, size_t size,
			   off_t offset);

#endif
