/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and removing files and directories where others may move things about.
 *
 * A path is resolved once. What stands above the last name is opened and held; everything else is
 * done from that descriptor, by single names, and no symbolic link is followed. So whoever can
 * rename something beside us, or in a directory of his above us, can make an operation fail, and
 * cannot lead it elsewhere. What is removed was opened first, is owned by who we are, and is
 * removed through its own descriptor.
 *
 * What we make is for its owner alone: 0700 and 0600, less what the umask takes away.
 */
#ifndef IP_DIR_H
#define IP_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

/* A name, and the directory in which it stands. */
struct ip_dir_place {
	int parent; /* O_PATH; -1: none */
	char name[NAME_MAX + 1];
};

/* Whether it is one that something can be made by: no path, not "." nor "..". */
bool ip_dir_is_name(const char *name);

/* Opens what stands above the last name of a path. Refused: an empty path, "/", "." and "..". 0, or
 * -1 with an error. */
int ip_dir_locate(const char *path, struct ip_dir_place *ret);
void ip_dir_place_close(struct ip_dir_place *place);

/* Opens the directory that stands at the name. -1 with errno: ENOENT, ELOOP or ENOTDIR (no
 * directory, a symbolic link included), EPERM: it is another user's. */
int ip_dir_open(int parent, const char *name);

/* Makes it, and opens it. -1 with errno: EEXIST, or EPERM where another one stood there when it was
 * opened. */
int ip_dir_make(int parent, const char *name);

/* Makes one beside the place, by a name that begins with that of the place. name: what it is
 * called. The descriptor, or -1 with errno. */
int ip_dir_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1]);

/* A temporary one in a directory, $TMPDIR say: the place is where it is. The descriptor, or -1 with
 * an error. */
int ip_dir_make_temporary(const char *in, const char *prefix, struct ip_dir_place *ret);

/* Whether the name stands for what the descriptor is open on. */
bool ip_dir_is_at(int parent, const char *name, int fd);

/* Removes a directory with all that is in it, directories included. -1 with errno; what is another
 * user's makes it fail. */
int ip_dir_remove(int parent, const char *name);

/* Renames within a directory; what has the new name already stays, and makes it fail with
 * EEXIST. */
int ip_dir_rename(int parent, const char *from, const char *to);

/* Makes a new file, at a name, or as ip_dir_make_beside(). -1 with errno. */
int ip_file_make(int dir, const char *name, int flags);
int ip_file_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1], int flags);

/* Opens a file for writing that is made if need be, without emptying it. One that is there must
 * be a plain file of ours, which is made unreadable to others; or what a symbolic link of ours
 * or root's leads to; or no plain file at all (a terminal, /dev/null, a FIFO) of ours or root's.
 * *ret_made: it is new. -1 with an error. */
int ip_file_open_output(const char *path, bool *ret_made);

/* What ip_file_open_output() has made, and is open on fd, goes; nothing else that has its name
 * now. */
void ip_file_unmake(const char *path, int fd);

/* Checks that nobody but root and we could put another in the place of a directory, or write to
 * it: this holds for every directory and symbolic link on the way. So what the path leads to
 * stays the same, and what is made in it with mode 0700, too. make: the mode with which it is
 * made where it is not there; 0: that is an error. 0, or -1 with an error. */
int ip_dir_check_way(const char *path, mode_t make);

/* The same of a file. */
int ip_file_check_way(const char *path);

#endif
