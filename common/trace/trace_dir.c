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
#include "common/trace/kernel_format.h"
#include "common/trace/trace_format.h"
#include "common/trace/trace_members.h"
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
	static const char *const names[] = {IP_TRACE_SESSION,	  IP_TRACE_JOURNAL,
					    IP_TRACE_STAMPS,	  IP_TRACE_COUNTS,
					    IP_TRACE_PAYLOAD,	  IP_TRACE_PIECES,
					    IP_TRACE_MEMBERS,	  IP_TRACE_SUBDIR "/metadata",
					    IP_TRACE_DESCRIPTORS, IP_TRACE_KERNEL_FUNCTIONS};
	static const char descriptors[] = IP_TRACE_DESCRIPTORS "-";
	const char *in_segments = strrchr(descriptors, '/') + 1;
	size_t n = strlen(name) - (ends_in(name, ".new") ? 4 : 0);
	uint32_t segment;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		const char *known = names[i] + strlen(IP_TRACE_SUBDIR "/");

		if (strlen(known) == n && !memcmp(known, name, n))
			return true;
	}
	if (!strncmp(name, in_segments, strlen(in_segments)))
		return ip_kernel_segment_parse(name + strlen(in_segments), &segment);
	return ends_in(name, ".probes");
}

static bool is_kernel(const char *name)
{
	struct ip_kernel_stream_name parsed;

	return !strcmp(name, "metadata") || !strcmp(name, "metadata.new") ||
	       ip_kernel_stream_name_parse(name, &parsed);
}

/* The sub-directories of a trace, and which files each has. What says that it is a trace goes last.
 */
static const struct {
	const char *name;
	is_known *known;
} subdirs[] = {{IP_KERNEL_SUBDIR, is_kernel}, {IP_TRACE_SUBDIR, is_ours}};

#define NSUBDIRS (sizeof(subdirs) / sizeof(*subdirs))

static bool is_subdir(const char *name)
{
	for (size_t i = 0; i < NSUBDIRS; i++)
		if (!strcmp(name, subdirs[i].name))
			return true;
	return false;
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

static bool has_plain(int inner, const char *name)
{
	struct stat st;

	return fstatat(inner, strrchr(name, '/') + 1, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(st.st_mode);
}

bool ip_trace_dir_is_one(int fd)
{
	_cleanup_closedir_ DIR *dir = list(fd);
	_cleanup_close_ int inner = ip_dir_open(fd, IP_TRACE_SUBDIR);

	if (!dir)
		return false;
	if (inner >= 0 &&
	    (has_plain(inner, IP_TRACE_SESSION) || has_plain(inner, IP_TRACE_MEMBERS)))
		return true;
	return !next(dir);
}

static bool is_member(const struct ip_trace_members *members, const char *name)
{
	for (size_t i = 0; members && i < members->n; i++)
		if (!strcmp(members->items[i].name, name))
			return true;
	return false;
}

/* inner: the sub-directories are allowed. members, whose names are allowed, may be NULL.
 */
static int check_names(int fd, const char *path, is_known *known, bool inner,
		       const struct ip_trace_members *members)
{
	_cleanup_closedir_ DIR *dir = list(fd);
	const char *name;

	if (!dir)
		return ip_error_errno("cannot read %s", path);
	while ((name = next(dir))) {
		struct stat st;

		if ((inner && is_subdir(name)) || is_member(members, name))
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

/* Opens a sub-directory. Returns -1 with an error; -2: there is none. */
static int open_inner(int fd, const char *path, const char *name)
{
	int inner = ip_dir_open(fd, name);

	if (inner >= 0)
		return inner;
	if (errno == ENOENT)
		return -2;
	return ip_error_errno("%s/%s is no directory of yours", path, name);
}

/* Checks one directory, without those of its members. */
static int check_one(int fd, const char *path, const struct ip_trace_members *members)
{
	int ret = check_names(fd, path, is_stream, true, members);

	for (size_t i = 0; i < NSUBDIRS && ret == 0; i++) {
		int inner = open_inner(fd, path, subdirs[i].name);

		if (inner == -1)
			return -1;
		if (inner < 0)
			continue;
		ret = check_names(inner, path, subdirs[i].known, false, NULL);
		close(inner);
	}
	return ret;
}

/* What is done to the directory of each member. */
typedef int each_member(int parent, const char *name, int fd, const char *path);

static int for_each(int fd, const char *path, const struct ip_trace_members *members,
		    each_member *each)
{
	for (size_t i = 0; i < members->n; i++) {
		const char *name = members->items[i].name;
		_cleanup_close_ int member = ip_dir_open(fd, name);
		_cleanup_free_ char *inner = NULL;

		if (member < 0 && errno == ENOENT)
			continue; /* its recording never began */
		if (member < 0)
			return ip_error_errno("%s/%s is no directory of yours", path, name);
		if (asprintf(&inner, "%s/%s", path, name) < 0) {
			inner = NULL;
			return ip_error("out of memory");
		}
		if (each(fd, name, member, inner) < 0)
			return -1;
	}
	return 0;
}

static int check_member(int parent, const char *name, int fd, const char *path)
{
	return check_one(fd, path, NULL);
}

int ip_trace_dir_check(int fd, const char *path)
{
	struct ip_trace_members members;
	int ret = ip_trace_members_read(fd, path, &members);

	if (ret < 0)
		return -1;
	ret = check_one(fd, path, &members);
	if (ret == 0)
		ret = for_each(fd, path, &members, check_member);
	ip_trace_members_clear(&members);
	return ret;
}

static int remove_one(int parent, const char *name, int fd, const char *path)
{
	int ret = 0;

	for (size_t i = 0; i < NSUBDIRS && ret == 0; i++) {
		int inner = open_inner(fd, path, subdirs[i].name);

		if (inner == -1)
			return -1;
		if (inner < 0)
			continue;
		ret = remove_names(inner, path, subdirs[i].known);
		close(inner);
		if (ret == 0 && unlinkat(fd, subdirs[i].name, AT_REMOVEDIR) < 0)
			ret = ip_error_errno("cannot remove %s/%s", path, subdirs[i].name);
	}
	if (ret < 0 || remove_names(fd, path, is_stream) < 0)
		return -1;
	if (!ip_dir_is_at(parent, name, fd))
		return ip_error("%s: another has been put in its place meanwhile", path);
	return unlinkat(parent, name, AT_REMOVEDIR) < 0 ? ip_error_errno("cannot remove %s", path)
							: 0;
}

/* The members go first. Until they are gone the list says which directories they have. */
int ip_trace_dir_remove(int parent, const char *name, int fd, const char *path)
{
	struct ip_trace_members members;
	int ret = ip_trace_members_read(fd, path, &members);

	if (ret < 0)
		return -1;
	ret = for_each(fd, path, &members, remove_one);
	ip_trace_members_clear(&members);
	return ret < 0 ? -1 : remove_one(parent, name, fd, path);
}
