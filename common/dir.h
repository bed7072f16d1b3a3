/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and removing files and directories where other users may move things.
 *
 * A path is resolved once. The directory above the last name is opened and held. Everything else is
 * done from that descriptor, by single names, and follows no symbolic link. Another user may be
 * able to rename something beside these names, or in a directory above them that this user owns.
 * That can make an operation fail, but cannot lead it elsewhere. What is removed was opened first,
 * belongs to the user of this process, and is removed through its own descriptor.
 *
 * What is made here is for its owner alone: 0700 and 0600, minus what the umask takes away.
 */
#ifndef IP_DIR_H
#define IP_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* A name, and the directory that contains it. */
struct ip_dir_place {
	int parent; /* O_PATH; -1: none */
	char name[NAME_MAX + 1];
};

/* Whether something can be made under this name: it is no path, not "." and not "..". */
bool ip_dir_is_name(const char *name);

/* Opens the directory above the last name of a path. Refuses an empty path, "/", "." and "..".
 * Returns 0, or -1 with an error. */
int ip_dir_locate(const char *path, struct ip_dir_place *ret);
void ip_dir_place_close(struct ip_dir_place *place);

/* Opens the directory with that name. Returns -1 with errno: ENOENT; ELOOP or ENOTDIR (it is no
 * directory, or a symbolic link); EPERM (it belongs to another user). */
int ip_dir_open(int parent, const char *name);

/* Makes a directory, and opens it. Returns -1 with errno: EEXIST, or EPERM if another directory had
 * its name when it was opened. */
int ip_dir_make(int parent, const char *name);

/* Makes a directory beside the place. Its name begins with that of the place; name: receives it.
 * Returns the descriptor, or -1 with errno. */
int ip_dir_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1]);

/* Makes a temporary directory in another one, for example $TMPDIR. *ret: where it is. Returns the
 * descriptor, or -1 with an error. */
int ip_dir_make_temporary(const char *in, const char *prefix, struct ip_dir_place *ret);

/* Whether the name refers to the file that fd is open on. */
bool ip_dir_is_at(int parent, const char *name, int fd);

/* Removes a directory with all its contents, directories included. Returns -1 with errno; anything
 * in it that belongs to another user makes it fail. */
int ip_dir_remove(int parent, const char *name);

/* Renames within a directory. If the new name exists already, it stays, and the call fails with
 * EEXIST. */
int ip_dir_rename(int parent, const char *from, const char *to);

/* Makes a new file: under a name, or as ip_dir_make_beside() does. Returns -1 with errno. */
int ip_file_make(int dir, const char *name, int flags);
int ip_file_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1], int flags);

/* Opens a file for writing without emptying it, and makes it if it does not exist. A file that
 * exists must be one of these: a plain file of this user, which is made unreadable to others; the
 * target of a symbolic link of this user or of root; or no plain file (a terminal, /dev/null, a
 * FIFO), of this user or of root. *ret_made: the file is new. Returns -1 with an error. */
int ip_file_open_output(const char *path, bool *ret_made);

/* Removes what ip_file_open_output() has made and fd is open on. If something else has its name
 * now, that stays. */
void ip_file_unmake(const char *path, int fd);

/* Checks that only root and this user could replace a directory or write to it. This must hold for
 * every directory and symbolic link on the path. So what the path leads to stays the same, and so
 * does what is made in it with mode 0700. A path through procfs is refused. make: if the directory
 * does not exist, it is made with this mode; 0: that is an error. Returns 0, or -1 with an error.
 */
int ip_dir_check_way(const char *path, mode_t make);

/* The same check for a file. */
int ip_file_check_way(const char *path);

#endif
