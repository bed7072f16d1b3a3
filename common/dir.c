/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories by descriptor. See dir.h.
 */
#include "common/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define DEPTH_MAX 32
#define TRIES	  100

bool ip_dir_is_name(const char *name)
{
	return *name && strlen(name) <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") &&
	       strcmp(name, "..");
}

int ip_dir_locate(const char *path, struct ip_dir_place *ret)
{
	_cleanup_free_ char *copy = strdup(path);
	_cleanup_close_ int fd = -1;
	const char *name;
	char *slash;

	ret->parent = -1;
	if (!copy)
		return ip_error("out of memory");
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = '\0';
	slash = strrchr(copy, '/');
	name = slash ? slash + 1 : copy;
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return ip_error("'%s' is no name that could be given to something new: name "
				"another with -o",
				path);
	if (strlen(name) > NAME_MAX)
		return ip_error("%s: the name is too long", path);
	strcpy(ret->name, name);
	if (slash)
		*slash = '\0';
	fd = open(!slash ? "." : slash == copy ? "/" : copy, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot open the directory of %s", path);
	ret->parent = ip_steal_fd(&fd);
	return 0;
}

void ip_dir_place_close(struct ip_dir_place *place)
{
	if (place->parent >= 0)
		close(place->parent);
	place->parent = -1;
}

/* Whether the file belongs to this user. Returns -1 with EPERM if not. */
static int check_owner(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_uid == geteuid())
		return 0;
	errno = EPERM;
	return -1;
}

int ip_dir_open(int parent, const char *name)
{
	_cleanup_close_ int fd =
		openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 || check_owner(fd) < 0 ? -1 : ip_steal_fd(&fd);
}

/* Checks that the directory is empty. Another directory of this user that was put in its place
 * might not be. */
static int check_empty(int fd)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = again < 0 ? NULL : fdopendir(again);
	const struct dirent *entry;

	if (!dir)
		return -1;
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
			errno = EPERM;
			return -1;
		}
	return 0;
}

int ip_dir_make(int parent, const char *name)
{
	_cleanup_close_ int fd = -1;

	if (mkdirat(parent, name, 0700) < 0)
		return -1;
	fd = ip_dir_open(parent, name);
	if (fd >= 0 && check_empty(fd) == 0)
		return ip_steal_fd(&fd);
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		errno = EPERM; /* another file has been put in its place */
	return -1;
}

/* 12 characters that cannot be guessed */
static void make_suffix(char suffix[13])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	uint8_t bytes[12];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		/* if such a name was guessed, making the file fails with EEXIST */
		memset(bytes, 0, sizeof(bytes));
	for (int i = 0; i < 12; i++)
		suffix[i] = letters[bytes[i] % (sizeof(letters) - 1)];
	suffix[12] = '\0';
}

/* flags -1: makes a directory. */
static int make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1], int flags)
{
	int fd = -1;

	for (int i = 0; i < TRIES && fd < 0; i++) {
		char suffix[13];

		make_suffix(suffix);
		if (snprintf(name, NAME_MAX + 1, "%s.%s", place->name, suffix) > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = flags < 0 ? ip_dir_make(place->parent, name)
			       : ip_file_make(place->parent, name, flags);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

int ip_dir_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1])
{
	return make_beside(place, name, -1);
}

int ip_file_make_beside(const struct ip_dir_place *place, char name[NAME_MAX + 1], int flags)
{
	return make_beside(place, name, flags);
}

int ip_dir_make_temporary(const char *in, const char *prefix, struct ip_dir_place *ret)
{
	struct ip_dir_place wanted = {.parent = open(in, O_PATH | O_DIRECTORY | O_CLOEXEC)};
	int fd;

	ret->parent = -1;
	if (wanted.parent < 0)
		return ip_error_errno("cannot open %s (TMPDIR names another place)", in);
	snprintf(wanted.name, sizeof(wanted.name), "%s", prefix);
	fd = ip_dir_make_beside(&wanted, ret->name);
	if (fd < 0) {
		ip_error_errno("cannot make a directory in %s (TMPDIR names another place)", in);
		ip_dir_place_close(&wanted);
		return -1;
	}
	ret->parent = wanted.parent;
	return fd;
}

bool ip_dir_is_at(int parent, const char *name, int fd)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Removes what is in the directory. It belongs to this user and stays open, so no other user can
 * change where the names lead. */
static int empty(int fd, dev_t device, int depth)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_closedir_ DIR *dir = again < 0 ? NULL : fdopendir(again);
	const struct dirent *entry;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		_cleanup_close_ int inner = -1;
		struct stat st;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		/* for a directory this fails with EISDIR (EPERM on other systems); nothing else is
		 * ever entered */
		if (unlinkat(fd, entry->d_name, 0) == 0 || errno == ENOENT)
			continue;
		inner = ip_dir_open(fd, entry->d_name);
		if (inner < 0 || fstat(inner, &st) < 0)
			return -1;
		if (st.st_dev != device || depth == DEPTH_MAX) {
			errno = EXDEV;
			return -1;
		}
		if (empty(inner, device, depth + 1) < 0 ||
		    unlinkat(fd, entry->d_name, AT_REMOVEDIR) < 0)
			return -1;
	}
	return 0;
}

int ip_dir_remove(int parent, const char *name)
{
	_cleanup_close_ int fd = ip_dir_open(parent, name);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || empty(fd, st.st_dev, 0) < 0)
		return -1;
	if (!ip_dir_is_at(parent, name, fd)) {
		errno = EPERM;
		return -1;
	}
	return unlinkat(parent, name, AT_REMOVEDIR);
}

int ip_dir_rename(int parent, const char *from, const char *to)
{
	struct stat st;

	if (renameat2(parent, from, parent, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* a file system without the flag: if `from` is a directory, rename() replaces at most an
	 * empty directory */
	if (fstatat(parent, to, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return renameat(parent, from, parent, to);
}

int ip_file_make(int dir, const char *name, int flags)
{
	return openat(dir, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
		      0600);
}

static bool is_trusted(uid_t uid)
{
	return uid == geteuid() || uid == 0;
}

static int refuse_owner(const char *path, const struct stat *st)
{
	return ip_error("%s is user %u's: name another file with -o", path, st->st_uid);
}

/* Opens the file itself, which has been found already. linked: a trusted symbolic link has led to
 * it, such as /dev/stdout to a pipe of any user. */
static int open_found(int found, const char *path, bool linked)
{
	char self[64];
	struct stat st;
	_cleanup_close_ int fd = -1;

	if (fstat(found, &st) < 0)
		return ip_error_errno("cannot look at %s", path);
	if (S_ISDIR(st.st_mode))
		return ip_error("%s is a directory: name a file with -o", path);
	if (S_ISREG(st.st_mode) ? st.st_uid != geteuid()
				: !linked && !S_ISCHR(st.st_mode) && !is_trusted(st.st_uid))
		return refuse_owner(path, &st);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	fd = open(self, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return ip_error_errno("cannot write %s", path);
	if (S_ISREG(st.st_mode) && (st.st_mode & 077) && fchmod(fd, st.st_mode & 0700) < 0)
		return ip_error_errno("%s: cannot be kept from others", path);
	return ip_steal_fd(&fd);
}

int ip_file_open_output(const char *path, bool *ret_made)
{
	struct ip_dir_place place;
	_cleanup_close_ int parent = -1, found = -1, fd = -1;
	struct stat st;

	*ret_made = false;
	if (ip_dir_locate(path, &place) < 0)
		return -1;
	parent = place.parent;
	fd = ip_file_make(parent, place.name, O_WRONLY);
	if (fd >= 0) {
		*ret_made = true;
		return ip_steal_fd(&fd);
	}
	if (errno != EEXIST)
		return ip_error_errno("cannot write %s", path);
	found = openat(parent, place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (found < 0 || fstat(found, &st) < 0)
		return ip_error_errno("cannot write %s", path);
	if (S_ISLNK(st.st_mode)) {
		if (!is_trusted(st.st_uid))
			return refuse_owner(path, &st);
		close(found);
		found = openat(parent, place.name, O_PATH | O_CLOEXEC);
		if (found < 0)
			return ip_error_errno("cannot write %s", path);
	}
	return open_found(found, path, S_ISLNK(st.st_mode));
}

void ip_file_unmake(const char *path, int fd)
{
	struct ip_dir_place place;

	if (ip_dir_locate(path, &place) < 0)
		return;
	if (ip_dir_is_at(place.parent, place.name, fd))
		unlinkat(place.parent, place.name, 0);
	ip_dir_place_close(&place);
}
