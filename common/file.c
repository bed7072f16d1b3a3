// SPDX-License-Identifier: Apache-2.0
/*
 * Files whose names come from outside.
 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

int ip_check_regular(int fd, const char *path, uint64_t *ret_size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return ip_error_errno("%s: cannot look at it", path);
	if (S_ISDIR(st.st_mode))
		return ip_error("%s: is a directory, a file is needed", path);
	if (!S_ISREG(st.st_mode))
		return ip_error("%s: not a regular file", path);
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int ip_reopen_regular(int found, const char *path, uint64_t *ret_size)
{
	_cleanup_close_ int fd = -1;
	char self[64];

	if (ip_check_regular(found, path, ret_size) < 0)
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", found);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT)
		return ip_error("%s: cannot open: there is no /proc here", path);
	if (fd < 0)
		return ip_error_errno("%s: cannot open", path);
	return ip_check_regular(fd, path, ret_size) < 0 ? -1 : ip_steal_fd(&fd);
}

int ip_access(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS);
}

int ip_find_in_root(int root, const char *path)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC,
			       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	long fd = -1;

	if (root < 0)
		return open(path, O_PATH | O_CLOEXEC);
	/* EAGAIN: something was renamed while ".." was looked up */
	for (int i = 0; i < 16 && (fd = syscall(SYS_openat2, root, path, &how, sizeof(how))) < 0 &&
			errno == EAGAIN;
	     i++)
		;
	return (int)fd;
}

static int open_regular(int dir, const char *name, const char *path, int flags, uint64_t *ret_size)
{
	_cleanup_close_ int found = openat(dir, name, O_PATH | O_CLOEXEC | flags);

	return found < 0 ? ip_error_errno("%s: cannot open", path)
			 : ip_reopen_regular(found, path, ret_size);
}

int ip_open_regular(const char *path, uint64_t *ret_size)
{
	return open_regular(AT_FDCWD, path, path, 0, ret_size);
}

int ip_open_regular_at(int dir, const char *name, const char *path, uint64_t *ret_size)
{
	return open_regular(dir, name, path, O_NOFOLLOW, ret_size);
}

int ip_read_at(int fd, const char *path, uint64_t offset, void *buffer, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t n = pread(fd, (char *)buffer + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("%s: cannot read", path);
		if (n == 0)
			return ip_error("%s: ends at byte %llu, where more was expected", path,
					(unsigned long long)(offset + done));
		done += (size_t)n;
	}
	return 0;
}

static int read_text(int fd, const char *path, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, room = 0;

	for (;;) {
		if (room - size < 2) {
			size_t want = room ? room * 2 : 4096;
			char *bigger = realloc(text, want);

			if (!bigger)
				return ip_error("%s: out of memory", path);
			text = bigger;
			room = want;
		}

		ssize_t n = read(fd, text + size, room - size - 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return ip_error_errno("%s: cannot read", path);
		if (n == 0)
			break;
		size += (size_t)n;
		if (size > max)
			return ip_error(
				"%s: longer than %zu bytes, which is more than is read here", path,
				max);
	}
	text[size] = '\0';
	*ret = ip_steal_ptr(text);
	*ret_size = size;
	return 0;
}

int ip_read_text(const char *path, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? ip_error_errno("%s: cannot open", path)
		      : read_text(fd, path, max, ret, ret_size);
}

int ip_read_regular_text(const char *path, size_t max, char **ret, size_t *ret_size)
{
	uint64_t size;
	_cleanup_close_ int fd = ip_open_regular(path, &size);

	return fd < 0 ? -1 : read_text(fd, path, max, ret, ret_size);
}

uint64_t ip_descriptor_limit_raise(void)
{
	struct rlimit limit;
	rlim_t before;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 0;
	before = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	return before == limit.rlim_max || setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_max
										 : before;
}
