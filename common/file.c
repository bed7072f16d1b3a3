// SPDX-License-Identifier: Apache-2.0
/*
 * Files that somebody else named.
 */
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

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

int ip_open_regular(const char *path, uint64_t *ret_size)
{
	/* O_NONBLOCK: opening a FIFO without a writer would wait for ever; O_NOCTTY: a terminal must not
	 * become ours. Neither means anything for a regular file. */
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return ip_error_errno("%s: cannot open", path);
	if (ip_check_regular(fd, path, ret_size) < 0)
		return -1;
	return ip_steal_fd(&fd);
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

int ip_read_text(const char *path, size_t max, char **ret, size_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	_cleanup_free_ char *text = NULL;
	size_t size = 0, room = 0;

	if (fd < 0)
		return ip_error_errno("%s: cannot open", path);
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
			return ip_error("%s: longer than %zu bytes, which is more than is read here", path,
					max);
	}
	text[size] = '\0';
	*ret = ip_steal_ptr(text);
	*ret_size = size;
	return 0;
}
