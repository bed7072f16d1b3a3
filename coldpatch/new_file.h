/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacing a file by a new one in one step: the new file is written beside it without a name, gets one,
 * and is renamed over the old. Until then the old file is untouched; whoever has it open or runs it
 * keeps it.
 */
#ifndef COLD_NEW_FILE_H
#define COLD_NEW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

struct cold_new_file {
	int fd;	      /* write here */
	char *target; /* symbolic links followed */
	char *temp;   /* name on disk, where the file system cannot do without; NULL: none yet */
};

#define COLD_NEW_FILE_NONE                                                                                   \
	{                                                                                                    \
		.fd = -1                                                                                     \
	}

/* Starts a new file that is to stand at path, which need not exist. 0, or -1 with an error. */
int cold_new_file_open(const char *path, struct cold_new_file *ret);

/* Gives it the permissions of the file open on fd, whose state is st; with everything also owner, group,
 * extended attributes and times. To be called after the last write. -1 where something could not be kept. */
int cold_new_file_resemble(struct cold_new_file *file, int fd, const struct stat *st, bool everything);

/* Puts it in its place. On failure the old file stands and the new one is gone. */
int cold_new_file_commit(struct cold_new_file *file);

/* Gives up whatever is not committed. Safe at any time, also twice. */
void cold_new_file_release(struct cold_new_file *file);

/* Writes it all, or -1 with an error that names the target. */
int cold_new_file_write(struct cold_new_file *file, const void *data, size_t size, off_t offset);

#endif
