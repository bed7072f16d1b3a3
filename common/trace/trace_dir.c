/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a directory is a trace, and removing it. See trace_dir.h.
 */
#include "common/trace/trace_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_segments.h"

typedef bool is_known(const char *name);

static bool ends_in(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n > m && !strcmp(name + n - m, end);
}

static bool is_stream(const char *name)
{
	struct ip_stream_name parsed;

	return !strcmp(name, "metadata") || ip_stream_name_parse(name, &parsed);
}

/* Files of IP_TRACE_SUBDIR. A file that is being written has ".new" at the end of its name. */
static bool is_ours(const char *name)
{
	static const char *const names[] = {IP_TRACE_SESSION,
					    IP_TRACE_JOURNAL,
					    IP_TRACE_STAMPS,
					    IP_TRACE_COUNTS,
					    IP_TRACE_PAYLOAD,
					    IP_TRACE_PIECES,
					    IP_TRACE_SUBDIR "/metadata"};
	size_t n = strlen(name) - (ends_in(name, ".new") ? 4 : 0);

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *known = names[i] + strlen(IP_TRACE_SUBDIR "/");

		if (strlen(known) == n && !memcmp(known, name, n))
			return true;
	}
	return ends_in(name, ".probes");
}

static DIR *list(int fd)
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);

	if (!dir && again >= 0)
		close(again);
	return dir;
}

/* The next name except "." and "..". */
static const char *next(DIR *dir)
{
	const struct dirent *entry;

	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			return entry->d_name;
	return NULL;
}

bool ip_trace_dir_is_one(int fd)
{
	_cleanup_closedir_ DIR *dir = list(fd);
	_cleanup_close_ int inner = ip_dir_open(fd, IP_TRACE_SUBDIR);
	struct stat st;

	if (!dir)
		return false;
	if (inner >= 0 &&
	    fstatat(inner, strrchr(IP_TRACE_SESSION, '/') + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode))
		return true;
	return !next(dir);
}

/* inner: the directory IP_TRACE_SUBDIR is allowed. */
static int check_names(int fd, const char *path, is_known *known, bool inner)
{
	_cleanup_closedir_ DIR *dir = list(fd);
	const char *name;

	if (!dir)
		return ip_error_errno("cannot read %s", path);
	while ((name = next(dir))) {
		struct stat st;

		if (inner && !strcmp(name, IP_TRACE_SUBDIR))
			continue;
		if (!known(name))
			return ip_error(
				"%s has %s in it, which is no file of a trace: move it away", path,
				name);
		if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return ip_error_errno("cannot look at %s/%s", path, name);
		if (!S_ISREG(st.st_mode))
			return ip_error("%s has %s in it, which is no plain file: move it away",
					path, name);
	}
	return 0;
}

static int remove_names(int fd, const char *path, is_known *known)
{
	_cleanup_closedir_ DIR *dir = list(fd);
	const char *name;

	if (!dir)
		return ip_error_errno("cannot read %s", path);
	while ((name = next(dir)))
		if (known(name) && unlinkat(fd, name, 0) < 0 && errno != ENOENT)
			return ip_error_errno("cannot remove %s/%s", path, name);
	return 0;
}

/* Opens the directory IP_TRACE_SUBDIR. Returns -1 with an error; -2: there is none. */
static int open_inner(int fd, const char *path)
{
	int inner = ip_dir_open(fd, IP_TRACE_SUBDIR);

	if (inner >= 0)
		return inner;
	if (errno == ENOENT)
		return -2;
	return ip_error_errno("%s/%s is no directory of yours", path, IP_TRACE_SUBDIR);
}

int ip_trace_dir_check(int fd, const char *path)
{
	int inner = open_inner(fd, path), ret;

	if (inner == -1)
		return -1;
	ret = check_names(fd, path, is_stream, true);
	if (ret == 0 && inner >= 0)
		ret = check_names(inner, path, is_ours, false);
	if (inner >= 0)
		close(inner);
	return ret;
}

int ip_trace_dir_remove(int parent, const char *name, int fd, const char *path)
{
	int inner = open_inner(fd, path), ret = 0;

	if (inner == -1)
		return -1;
	if (inner >= 0) {
		ret = remove_names(inner, path, is_ours);
		close(inner);
		if (ret == 0 && unlinkat(fd, IP_TRACE_SUBDIR, AT_REMOVEDIR) < 0)
			ret = ip_error_errno("cannot remove %s/%s", path, IP_TRACE_SUBDIR);
	}
	if (ret < 0 || remove_names(fd, path, is_stream) < 0)
		return -1;
	if (!ip_dir_is_at(parent, name, fd))
		return ip_error("%s: another has been put in its place meanwhile", path);
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? ip_error_errno("cannot remove %s", path)
							: 0;
}
