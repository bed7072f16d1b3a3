/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New files that replace old ones. See atomic_file.h.
 *
 * O_TMPFILE keeps the file nameless while it is written: not even kill -9 leaves half a file
 * behind. The file has a name of its own only for the microseconds of the replacement, and is
 * complete then. On a file system without O_TMPFILE the name exists from the start.
 *
 * The place is found once. The file to be replaced is held open (O_PATH), and so is the directory
 * that held it under that name. All further steps use single names in that directory. The names of
 * the two files are exchanged in one step. Then the file under the other name must be the one that
 * is held. If it is not, the names are exchanged back.
 */
#include "coldpatch/write/atomic_file.h"

#include "common/cleanup.h"
#include "common/dir.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define TEMPORARY ".coldpatch"

static int refuse_changed(const char *path)
{
	return ip_error("%s: somebody else changed it meanwhile", path);
}

/* On overlayfs a file of a lower layer gets another inode when it is copied to the upper layer, if
 * the layers are on several file systems. */
static bool is_copied_up(int parent, const char *name, int fd)
{
	struct statfs fs;
	struct stat a, b;

	return fstatfs(parent, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC &&
	       fstat(fd, &a) == 0 && fstatat(parent, name, &b, AT_SYMLINK_NOFOLLOW) == 0 &&
	       a.st_mode == b.st_mode && a.st_uid == b.st_uid && a.st_gid == b.st_gid &&
	       a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
	       a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

static bool is_at(int parent, const char *name, int fd)
{
	return ip_dir_is_at(parent, name, fd) || is_copied_up(parent, name, fd);
}

/* A symbolic link has led to the file. This finds the place of the file itself. */
static int locate_file(const char *path, int fd, struct ip_dir_place *ret)
{
	char self[64], real[PATH_MAX];
	ssize_t n;

	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, real, sizeof(real) - 1);
	if (n <= 0)
		return ip_error_errno("%s: cannot find what it leads to", path);
	real[n] = '\0';
	if (ip_dir_locate(real, ret) < 0)
		return -1;
	if (is_at(ret->parent, ret->name, fd))
		return 0;
	ip_dir_place_close(ret);
	return refuse_changed(path);
}

/* Checks whether the existing file may be replaced. source: as in cold_atomic_file_open(). */
static int check_old(const char *path, int fd, int source)
{
	struct stat st, own;

	if (fstat(fd, &st) < 0)
		return ip_error_errno("%s", path);
	if (!S_ISREG(st.st_mode))
		return ip_error("%s is no plain file: name another", path);
	if (source < 0 && st.st_uid != geteuid())
		return ip_error("%s is user %u's: name another file", path, st.st_uid);
	if (source >= 0 &&
	    (fstat(source, &own) < 0 || own.st_ino != st.st_ino || own.st_dev != st.st_dev))
		return refuse_changed(path);
	return 0;
}

/* Follows a symbolic link. A link of another user may lead only to that user's own files. */
static int follow(const char *path, const struct stat *link, int source, struct cold_atomic_file *f)
{
	struct ip_dir_place place;
	_cleanup_close_ int fd = openat(f->place.parent, f->place.name, O_PATH | O_CLOEXEC);
	struct stat st;
	bool trusted = link->st_uid == geteuid() || link->st_uid == 0;

	if (fd < 0 && errno == ENOENT && trusted && source < 0)
		return 0; /* the link leads nowhere: the link itself is replaced */
	if (fd < 0 || fstat(fd, &st) < 0)
		return ip_error_errno("%s", path);
	if (!trusted && st.st_uid != link->st_uid)
		return ip_error("%s is a symbolic link of user %u's: name the file itself", path,
				link->st_uid);
	if (check_old(path, fd, source) < 0 || locate_file(path, fd, &place) < 0)
		return -1;
	ip_dir_place_close(&f->place);
	f->place = place;
	close(f->old);
	f->old = ip_steal_fd(&fd);
	return 0;
}

/* Opens the file at the place. */
static int open_old(const char *path, int source, struct cold_atomic_file *f)
{
	struct stat st;

	f->old = openat(f->place.parent, f->place.name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (f->old < 0 && errno == ENOENT && source < 0)
		return 0;
	if (f->old < 0 || fstat(f->old, &st) < 0)
		return ip_error_errno("%s", path);
	return S_ISLNK(st.st_mode) ? follow(path, &st, source, f) : check_old(path, f->old, source);
}

static int make_beside(struct cold_atomic_file *f)
{
	struct ip_dir_place temporary = {.parent = f->place.parent, .name = TEMPORARY};
	int fd = openat(f->place.parent, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		fd = ip_file_make_beside(&temporary, f->temp, O_RDWR);
		if (fd < 0)
			*f->temp = '\0';
	}
	return fd;
}

static int open_new(const char *path, int source, struct ip_dir_place *place,
		    struct cold_atomic_file *ret)
{
	*ret = (struct cold_atomic_file)COLD_NEW_FILE_NONE;
	ret->place = *place;
	ret->target = strdup(path);
	if (!ret->target)
		ip_error("out of memory");
	else if (open_old(path, source, ret) == 0) {
		ret->fd = make_beside(ret);
		if (ret->fd >= 0)
			return 0;
		ip_error_errno("%s: cannot make a new file beside it", path);
	}
	cold_atomic_file_release(ret);
	return -1;
}

int cold_atomic_file_open(const char *path, int source, struct cold_atomic_file *ret)
{
	struct ip_dir_place place;

	return ip_dir_locate(path, &place) < 0 ? -1 : open_new(path, source, &place, ret);
}

int cold_atomic_file_open_at(const char *path, struct ip_dir_place *place,
			     struct cold_atomic_file *ret)
{
	return open_new(path, -1, place, ret);
}

int cold_atomic_file_write(struct cold_atomic_file *f, const void *data, size_t size, off_t offset)
{
	const char *p = data;

	while (size) {
		ssize_t n = pwrite(f->fd, p, size, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("%s: cannot write the new file", f->target);
		p += n;
		size -= n;
		offset += n;
	}
	return 0;
}

/* Signatures of the old contents. They would be wrong for the new contents, and the kernel would
 * refuse the file. */
static bool is_signature(const char *name)
{
	return !strcmp(name, "security.ima") || !strcmp(name, "security.evm");
}

static int copy_attribute(struct cold_atomic_file *f, int fd, const char *name)
{
	_cleanup_free_ char *value = NULL, *have = NULL;
	ssize_t size = fgetxattr(fd, name, NULL, 0);

	if (size < 0)
		return ip_error_errno("%s: extended attribute %s", f->target, name);
	value = malloc(size + 1);
	have = malloc(size + 1);
	if (!value || !have)
		return ip_error("out of memory");
	size = fgetxattr(fd, name, value, size);
	if (size < 0)
		return ip_error_errno("%s: extended attribute %s", f->target, name);
	if (fgetxattr(f->fd, name, have, size + 1) == size && !memcmp(value, have, size))
		return 0; /* the new file has inherited it from the directory */
	if (fsetxattr(f->fd, name, value, size, 0))
		return ip_error_errno("%s: extended attribute %s cannot be kept", f->target, name);
	return 0;
}

static int copy_attributes(struct cold_atomic_file *f, int fd)
{
	_cleanup_free_ char *names = NULL;
	ssize_t size = flistxattr(fd, NULL, 0);

	if (size == 0 || (size < 0 && errno == EOPNOTSUPP))
		return 0;
	if (size < 0)
		return ip_error_errno("%s: extended attributes", f->target);
	names = malloc(size);
	if (!names)
		return ip_error("out of memory");
	size = flistxattr(fd, names, size);
	if (size < 0)
		return ip_error_errno("%s: extended attributes", f->target);
	for (const char *name = names; name < names + size; name += strlen(name) + 1)
		if (!is_signature(name) && copy_attribute(f, fd, name))
			return -1;
	return 0;
}

int cold_atomic_file_resemble(struct cold_atomic_file *f, int fd, const struct stat *st,
			      bool everything)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	mode_t mode = st->st_mode & 07777;
	struct stat mine;

	if (fstat(f->fd, &mine))
		return ip_error_errno("%s", f->target);
	if (everything && (mine.st_uid != st->st_uid || mine.st_gid != st->st_gid) &&
	    fchown(f->fd, st->st_uid, st->st_gid))
		return ip_error_errno("%s: the new file cannot have the owner %u:%u of the old",
				      f->target, st->st_uid, st->st_gid);
	/* A caller who gets another user's file must not give his own rights to all users who may
	 * run it. */
	if (!everything && (mine.st_uid != st->st_uid || mine.st_gid != st->st_gid))
		mode &= 01777;
	if (fchmod(f->fd, mode))
		return ip_error_errno("%s: permissions", f->target);
	if (!everything)
		return 0;
	if (copy_attributes(f, fd))
		return -1;
	if (futimens(f->fd, times))
		return ip_error_errno("%s: times", f->target);
	return 0;
}

/* Gives a nameless file a name. */
static int give_name(const struct cold_atomic_file *f, const char *name)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	return linkat(AT_FDCWD, self, f->place.parent, name, AT_SYMLINK_FOLLOW);
}

/* Gives the file a name that no other file has. */
static int give_free_name(struct cold_atomic_file *f)
{
	for (unsigned tries = 0; tries < 100; tries++) {
		char name[sizeof(f->temp)];

		snprintf(name, sizeof(name), TEMPORARY ".%08x%08x", arc4random(), arc4random());
		if (give_name(f, name) == 0) {
			strcpy(f->temp, name);
			return 0;
		}
		if (errno != EEXIST)
			return ip_error_errno("%s: cannot name the new file", f->target);
	}
	return ip_error("%s: no free name for the new file beside it", f->target);
}

/* There was no file of that name, and there must still be none. */
static int commit_first(struct cold_atomic_file *f)
{
	if (*f->temp ? ip_dir_rename(f->place.parent, f->temp, f->place.name)
		     : give_name(f, f->place.name)) {
		if (errno == EEXIST)
			return ip_error("%s: somebody else has made it meanwhile", f->target);
		return ip_error_errno("%s: cannot name the new file", f->target);
	}
	return 0;
}

/* The file that now has the temporary name is not the one that was to be replaced. */
static int undo(struct cold_atomic_file *f)
{
	int dir = f->place.parent;

	if (ip_dir_is_at(dir, f->place.name, f->fd) &&
	    renameat2(dir, f->temp, dir, f->place.name, RENAME_EXCHANGE) == 0)
		return refuse_changed(f->target);
	ip_error("%s: somebody else changed it meanwhile; what was there is called %s now",
		 f->target, f->temp);
	*f->temp = '\0'; /* it is not ours to remove */
	return -1;
}

static int replace(struct cold_atomic_file *f)
{
	int dir = f->place.parent;

	if (!is_at(dir, f->place.name, f->old))
		return refuse_changed(f->target);
	if (renameat2(dir, f->temp, dir, f->place.name, RENAME_EXCHANGE) == 0) {
		if (!is_at(dir, f->temp, f->old))
			return undo(f);
		if (unlinkat(dir, f->temp, 0) < 0)
			return ip_error_errno("%s: the old file, %s now, cannot be removed",
					      f->target, f->temp);
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS)
		return ip_error_errno("%s: cannot be replaced", f->target);
	/* the file system cannot exchange names */
	if (renameat(dir, f->temp, dir, f->place.name) < 0)
		return ip_error_errno("%s: cannot be replaced", f->target);
	return 0;
}

int cold_atomic_file_commit(struct cold_atomic_file *f)
{
	int result = f->old < 0				  ? commit_first(f)
		     : !*f->temp && give_free_name(f) < 0 ? -1
							  : replace(f);

	if (result < 0)
		cold_atomic_file_release(f);
	else
		*f->temp = '\0';
	return result;
}

void cold_atomic_file_release(struct cold_atomic_file *f)
{
	if (*f->temp && f->fd >= 0 && ip_dir_is_at(f->place.parent, f->temp, f->fd))
		unlinkat(f->place.parent, f->temp, 0);
	free(f->target);
	ip_dir_place_close(&f->place);
	if (f->old >= 0)
		close(f->old);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct cold_atomic_file)COLD_NEW_FILE_NONE;
}
