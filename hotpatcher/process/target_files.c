/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files that a process names. See target_files.h.
 */
#include "hotpatcher/process/target_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

int ip_target_root(pid_t pid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/root", pid);
	return open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

const char *ip_target_path(pid_t pid, const char *path)
{
	char name[64], root[4096];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/root", pid);
	n = readlink(name, root, sizeof(root));
	return n > 1 && n < (ssize_t)sizeof(root) && !strncmp(path, root, n) && path[n] == '/'
		       ? path + n
		       : path;
}

/* Whether the file is the mapped one, by its inode. The device is not compared: some file systems
 * (overlayfs, btrfs) show another device in maps than in stat. The build-id decides there. */
static bool is_mapped(int fd, const struct ip_mapping *m)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == m->inode;
}

/* Opens one of the kernel's own links to files of the process. */
static int find_link(const char *name)
{
	return open(name, O_PATH | O_CLOEXEC);
}

int ip_target_open_mapping(pid_t pid, const struct ip_mapping *m, bool *ret_exact)
{
	_cleanup_close_ int mapped = -1, executable = -1, root = -1, found = -1;
	char name[64];
	uint64_t size;
	int fd;

	*ret_exact = true;
	snprintf(name, sizeof(name), "/proc/%d/map_files/%lx-%lx", pid, m->start, m->end);
	mapped = find_link(name);
	fd = mapped < 0 ? -1 : ip_reopen_regular(mapped, m->path, &size);
	if (fd >= 0)
		return fd;
	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	executable = find_link(name);
	fd = executable < 0 || !is_mapped(executable, m)
		     ? -1
		     : ip_reopen_regular(executable, m->path, &size);
	if (fd >= 0)
		return fd;
	root = ip_target_root(pid);
	found = root < 0 ? -1 : ip_find_in_root(root, ip_target_path(pid, m->path));
	if (found < 0)
		return ip_error_errno("%s: its file cannot be opened", m->path);
	*ret_exact = is_mapped(found, m);
	return ip_reopen_regular(found, m->path, &size);
}

bool ip_target_files_are_ours(pid_t pid)
{
	_cleanup_close_ int root = ip_target_root(pid);
	struct stat process, theirs, ours;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d", pid);
	return root >= 0 && stat(name, &process) == 0 && process.st_uid == geteuid() &&
	       fstat(root, &theirs) == 0 && stat("/", &ours) == 0 && theirs.st_dev == ours.st_dev &&
	       theirs.st_ino == ours.st_ino;
}
