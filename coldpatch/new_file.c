/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New files that replace old ones. See new_file.h.
 *
 * O_TMPFILE keeps the file nameless while it is written: not even kill -9 leaves half a file
 * behind. It has a name of its own only between linkat and rename, some microseconds, and is complete then.
 * Where a file system has no O_TMPFILE the name exists from the start.
 */
#include "coldpatch/new_file.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/xattr.h>

/* ".coldpatch.XXXXXX" beside the target */
static char *temp_pattern(const char *target)
{
	const char *base = strrchr(target, '/');
	char *pattern;

	base = base ? base + 1 : target;
	if (asprintf(&pattern, "%.*s.coldpatch.XXXXXX", (int)(base - target), target) < 0)
		return NULL;
	return pattern;
}

int cold_new_file_open(const char *path, struct cold_new_file *ret)
{
	_cleanup_free_ char *target = realpath(path, NULL), *copy = NULL, *pattern = NULL;
	int fd;

	*ret = (struct cold_new_file)COLD_NEW_FILE_NONE;
	if (!target && errno == ENOENT)
		target = strdup(path);
	else if (!target)
		return ip_error_errno("%s", path);
	copy = target ? strdup(target) : NULL;
	if (!copy)
		return ip_error("out of memory");
	fd = open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)) {
		pattern = temp_pattern(target);
		if (!pattern)
			return ip_error("out of memory");
		fd = mkostemp(pattern, O_CLOEXEC);
		if (fd >= 0)
			ret->temp = ip_steal_ptr(pattern);
	}
	if (fd < 0)
		return ip_error_errno("%s: cannot make a new file beside it", path);
	ret->fd = fd;
	ret->target = ip_steal_ptr(target);
	return 0;
}

int cold_new_file_write(struct cold_new_file *f, const void *data, size_t size, off_t offset)
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

/* Signatures of the old contents: they would be wrong for the new ones, and the kernel would refuse the file.
 */
static bool is_signature(const char *name)
{
	return !strcmp(name, "security.ima") || !strcmp(name, "security.evm");
}

static int copy_attribute(struct cold_new_file *f, int fd, const char *name)
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
		return 0; /* inherited from the directory */
	if (fsetxattr(f->fd, name, value, size, 0))
		return ip_error_errno("%s: extended attribute %s cannot be kept", f->target, name);
	return 0;
}

static int copy_attributes(struct cold_new_file *f, int fd)
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

int cold_new_file_resemble(struct cold_new_file *f, int fd, const struct stat *st, bool everything)
{
	struct timespec times[2] = {st->st_atim, st->st_mtim};
	struct stat mine;

	if (fstat(f->fd, &mine))
		return ip_error_errno("%s", f->target);
	if (everything && (mine.st_uid != st->st_uid || mine.st_gid != st->st_gid) &&
	    fchown(f->fd, st->st_uid, st->st_gid))
		return ip_error_errno("%s: the new file cannot have the owner %u:%u of the old", f->target,
				      st->st_uid, st->st_gid);
	if (fchmod(f->fd, st->st_mode & 07777))
		return ip_error_errno("%s: permissions", f->target);
	if (!everything)
		return 0;
	if (copy_attributes(f, fd))
		return -1;
	if (futimens(f->fd, times))
		return ip_error_errno("%s: times", f->target);
	return 0;
}

/* Gives a nameless file a name that nobody has. */
static int give_name(struct cold_new_file *f)
{
	char self[64];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	for (unsigned tries = 0; tries < 100; tries++) {
		_cleanup_free_ char *name = temp_pattern(f->target);
		char digits[7];

		if (!name)
			return ip_error("out of memory");
		snprintf(digits, sizeof(digits), "%06x", arc4random() & 0xffffff);
		memcpy(name + strlen(name) - 6, digits, 6);
		if (!linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW)) {
			f->temp = ip_steal_ptr(name);
			return 0;
		}
		if (errno != EEXIST)
			return ip_error_errno("%s: cannot name the new file", f->target);
	}
	return ip_error("%s: no free name for the new file beside it", f->target);
}

int cold_new_file_commit(struct cold_new_file *f)
{
	if (!f->temp && give_name(f))
		return -1;
	if (rename(f->temp, f->target)) {
		ip_error_errno("%s: cannot be replaced", f->target);
		cold_new_file_release(f);
		return -1;
	}
	free(f->temp);
	f->temp = NULL;
	return 0;
}

void cold_new_file_release(struct cold_new_file *f)
{
	if (f->temp)
		unlink(f->temp);
	free(f->temp);
	free(f->target);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct cold_new_file)COLD_NEW_FILE_NONE;
}
