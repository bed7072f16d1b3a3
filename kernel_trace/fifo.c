/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether a descriptor is a FIFO, by the type of its file.
 *
 *   1. A descriptor of our own is opened for the path alone (O_PATH). It keeps no end of the FIFO
 *      open, and asks no file system. The mount that the file is on stays as long as it is open.
 *   2. Its number is read from our own /proc/self/fdinfo, and the mount's type from the process'
 *      mountinfo.
 *   3. Where the kernel answers for such a file system by itself, the type of the file is asked
 *      for. A server of FUSE, which may be the target's own, could let us wait forever.
 */
#include "kernel_trace/fifo.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/cleanup.h"

bool ip_file_system_is_local(const char *type)
{
	static const char *const types[] = {"bcachefs", "btrfs", "devtmpfs", "ext2",  "ext3",
					    "ext4",	"f2fs",	 "jfs",	     "ramfs", "reiserfs",
					    "rootfs",	"tmpfs", "xfs",	     "zfs"};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": blanks of paths are escaped. */
bool ip_mount_type(const char *line, int mount, char ret[32])
{
	const char *type = strstr(line, " - ");
	char *end;

	if (strtol(line, &end, 10) != mount || end == line || *end != ' ' || !type)
		return false;
	snprintf(ret, 32, "%.*s", (int)strcspn(type + 3, " \n"), type + 3);
	return true;
}

/* The number of the mount that a descriptor of ours is on; -1: not known. */
static int mount_of(int fd)
{
	_cleanup_fclose_ FILE *file = NULL;
	char path[48], line[128];
	int mount = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && mount < 0 && fgets(line, sizeof(line), file))
		if (sscanf(line, "mnt_id: %d", &mount) != 1)
			mount = -1;
	return mount;
}

static bool is_on_local(pid_t tid, int mount)
{
	_cleanup_fclose_ FILE *file = NULL;
	_cleanup_free_ char *line = NULL;
	char path[48], type[32];
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", tid);
	file = mount < 0 ? NULL : fopen(path, "re");
	while (file && getline(&line, &size, file) >= 0)
		if (ip_mount_type(line, mount, type))
			return ip_file_system_is_local(type);
	return false;
}

bool ip_is_fifo(pid_t tid, int fd)
{
	_cleanup_close_ int own = -1;
	char path[48];
	struct statx st;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", tid, fd);
	own = open(path, O_PATH | O_CLOEXEC);
	return own >= 0 && is_on_local(tid, mount_of(own)) &&
	       statx(own, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) == 0 &&
	       st.stx_mask & STATX_TYPE && S_ISFIFO(st.stx_mode);
}
