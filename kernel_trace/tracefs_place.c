/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens tracefs: where the system has mounted it; else by a mount of our own, which no mount table
 * shows.
 */
#include "kernel_trace/tracefs_place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <tracefs.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"

#define PLACE	    "/sys/kernel/tracing"
#define SOME_LAYOUT "events/sched/sched_switch/format"
#define FIRST_PID   0xeffffffcu /* inode of the initial pid namespace (proc_ns.h of the kernel) */

static int own_mount(void)
{
	_cleanup_close_ int context = fsopen("tracefs", FSOPEN_CLOEXEC);

	if (context < 0 || fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	return fsmount(context, FSMOUNT_CLOEXEC,
		       MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
}

/* The system's mount. What lies there must be tracefs: it is not ours, but only root can have put
 * it there. */
static int system_mount(void)
{
	_cleanup_close_ int fd = open(PLACE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct statfs fs;

	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -1;
	if (fs.f_type != TRACEFS_MAGIC) {
		errno = ENOENT;
		return -1;
	}
	return ip_steal_fd(&fd);
}

static bool in_first_pid_namespace(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == FIRST_PID;
}

/* Which of them the kernel enforces: "none [integrity] confidentiality". */
static bool is_confidential(void)
{
	char text[64] = "";
	_cleanup_close_ int fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, "[confidentiality]");
}

/* A kernel that is locked down lets the directory be seen, and what is in it not be opened. */
static int check_open(int top)
{
	_cleanup_close_ int fd = openat(top, SOME_LAYOUT, O_RDONLY | O_CLOEXEC);
	const int error = errno;

	if (fd < 0 && is_confidential())
		return ip_error("this kernel is locked down (confidentiality), which closes its "
				"tracefs even to root");
	errno = error;
	if (fd < 0 && errno == EACCES)
		return ip_error("cannot read %s of the kernel's tracefs, which takes root",
				SOME_LAYOUT);
	if (fd < 0)
		return ip_error_errno("cannot read %s of the kernel's tracefs", SOME_LAYOUT);
	return 0;
}

int ip_tracefs_check(const struct ip_tracefs *tracefs)
{
	char clocks[256] = "";
	_cleanup_close_ int fd = -1;

	if (faccessat(tracefs->fd, "instances", R_OK | W_OK | X_OK, AT_EACCESS) < 0)
		return ip_error_errno("cannot make an instance of the kernel's tracefs, which "
				      "takes root");
	fd = openat(tracefs->fd, "trace_clock", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, clocks, sizeof(clocks) - 1) <= 0)
		return ip_error_errno("cannot read trace_clock of the kernel's tracefs");
	if (!strstr(clocks, "x86-tsc"))
		return ip_error("this kernel's tracefs has no clock x86-tsc, which the times of "
				"functions are of");
	return 0;
}

/* Returns the descriptor of its top directory, or -1 with an error. */
static int open_top(void)
{
	_cleanup_close_ int fd = -1;

	/* A container sees other ids than the kernel's events have, and cannot translate them. */
	if (!in_first_pid_namespace())
		return ip_error("kernel events name threads by the ids of the machine, and this is "
				"another pid namespace (a container): run iprobe outside of it");
	/* a mount of our own would reset the mode of the system's one on older kernels */
	fd = system_mount();
	if (fd < 0)
		fd = own_mount();
	if (fd < 0 && errno == ENODEV)
		return ip_error("this kernel has no tracefs (CONFIG_TRACING)");
	if (fd < 0)
		return ip_error_errno("cannot open the kernel's tracefs, which takes root, or "
				      "CAP_SYS_ADMIN and a kernel that is not locked down");
	if (check_open(fd) < 0)
		return -1;
	return ip_steal_fd(&fd);
}

int ip_tracefs_open(struct ip_tracefs *ret)
{
	char path[32];

	ret->fd = open_top();
	if (ret->fd < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ret->fd);
	if (tracefs_set_tracing_dir(path) < 0) {
		ip_tracefs_close(ret);
		return ip_error("out of memory");
	}
	return 0;
}

void ip_tracefs_close(struct ip_tracefs *tracefs)
{
	if (tracefs->fd < 0)
		return;
	tracefs_set_tracing_dir(NULL);
	close(tracefs->fd);
	tracefs->fd = -1;
}
