/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether another user could make a path lead elsewhere. See dir.h.
 *
 * The path is followed by single names from the root directory on; links are read and followed
 * here. Each name is looked up in a directory that was checked before. So a later lookup finds the
 * same file at each step, whichever process does it. Links of procfs do not lead where their text
 * says, but to what a process has open, or to its root directory: a way through procfs is refused.
 */
#include "common/dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define LINKS_MAX 16

static bool is_trusted(uid_t uid)
{
	return uid == geteuid() || uid == 0;
}

/* The state of following a path. */
struct step {
	const char *path; /* the whole path, for errors */
	mode_t make;	  /* mode of the last directory if it does not exist; 0: it must exist */
	int depth;	  /* symbolic links so far */
};

/* Whether another user could replace a name in the directory. */
static int check_directory(int fd, const char *path)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
		return ip_error_errno("%s: cannot look at a directory above it", path);
	if (fs.f_type == PROC_SUPER_MAGIC)
		return ip_error("%s: it leads through /proc, where links lead elsewhere than they "
				"say: name it by its own path",
				path);
	if (!is_trusted(st.st_uid))
		return ip_error("%s: it, or a directory above it, is user %u's, who could put "
				"another in its place: chown it",
				path, st.st_uid);
	if ((st.st_mode & 022) && !(st.st_mode & S_ISVTX))
		return ip_error("%s: others can write to a directory above it, and could put "
				"another in its place: chmod go-w, or chmod +t",
				path);
	return 0;
}

static int walk(int *fd, const char *way, struct step *step, bool last);

/* Follows a link in a directory that has been checked: its text does not change, and is followed
 * like any other path. */
static int walk_link(int *fd, int link, struct step *step, bool last)
{
	char text[PATH_MAX];
	ssize_t n = readlinkat(link, "", text, sizeof(text) - 1);

	if (n <= 0 || ++step->depth > LINKS_MAX)
		return ip_error("%s: too many symbolic links on the way", step->path);
	text[n] = '\0';
	return walk(fd, text, step, last);
}

/* Follows one name from *fd. last: the path ends with this name. */
static int walk_name(int *fd, const char *name, struct step *step, bool last)
{
	_cleanup_close_ int next = -1;
	struct stat st;

	if (check_directory(*fd, step->path) < 0)
		return -1;
	next = openat(*fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (next < 0 && errno == ENOENT && last && step->make) {
		if (mkdirat(*fd, name, step->make) < 0 && errno != EEXIST)
			return ip_error_errno("cannot make %s", step->path);
		next = openat(*fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	}
	if (next < 0 || fstat(next, &st) < 0)
		return ip_error_errno("cannot open %s", step->path);
	if (!is_trusted(st.st_uid))
		return ip_error("%s: it, or a directory above it, is user %u's, who could put "
				"another in its place: chown it",
				step->path, st.st_uid);
	if (S_ISLNK(st.st_mode))
		return walk_link(fd, next, step, last);
	if (!S_ISDIR(st.st_mode) && !last)
		return ip_error("%s: something on the way is no directory", step->path);
	close(*fd);
	*fd = ip_steal_fd(&next);
	return 0;
}

static int walk(int *fd, const char *way, struct step *step, bool last)
{
	if (*way == '/') {
		close(*fd);
		*fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (*fd < 0)
			return ip_error_errno("cannot open %s", step->path);
	}
	while (*(way += strspn(way, "/"))) {
		size_t n = strcspn(way, "/");
		char name[NAME_MAX + 1];

		if (n > NAME_MAX)
			return ip_error("%s: a name is too long", step->path);
		memcpy(name, way, n);
		name[n] = '\0';
		way += n;
		if (walk_name(fd, name, step, last && !way[strspn(way, "/")]) < 0)
			return -1;
	}
	return 0;
}

static int check_way(const char *path, mode_t make, bool directory)
{
	char here[PATH_MAX] = "";
	_cleanup_close_ int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct step step = {.path = path, .make = make};
	struct stat st;

	if (fd < 0 || (*path != '/' && !getcwd(here, sizeof(here))))
		return ip_error_errno("cannot open %s", path);
	if (walk(&fd, here, &(struct step){.path = path}, false) < 0 ||
	    walk(&fd, path, &step, true) < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		return ip_error_errno("cannot open %s", path);
	if (directory ? !S_ISDIR(st.st_mode) : !S_ISREG(st.st_mode))
		return ip_error("%s is no %s", path, directory ? "directory" : "plain file");
	return st.st_mode & 022
		       ? ip_error("%s can be written by others: chown it, chmod go-w", path)
		       : 0;
}

int ip_dir_check_way(const char *path, mode_t make)
{
	return check_way(path, make, true);
}

int ip_file_check_way(const char *path)
{
	return check_way(path, 0, false);
}
