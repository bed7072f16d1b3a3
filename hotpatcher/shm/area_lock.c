/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks of the area: who has the session of a target, and who changes its text. They are OFD locks
 * on bytes of the memfd: the kernel drops them when their holder dies. See area.h.
 */
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/now.h"
#include "hotpatcher/shm/area.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

static int lock(struct ip_area *area, off_t byte, short type)
{
	struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	return fcntl(area->fd, F_OFD_SETLK, &l);
}

bool ip_area_has_session(const struct ip_area *area)
{
	struct flock l = {.l_type = F_WRLCK,
			  .l_whence = SEEK_SET,
			  .l_start = IP_AREA_LOCK_SESSION,
			  .l_len = 1};

	return fcntl(area->fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
}

/* Returns whether the line describes the session lock: a lock whose first byte is that of the
 * session. An example:
 * "lock:	1: OFDLCK ADVISORY  WRITE -1 00:01:1030 0 0" */
static bool is_session_lock(const char *line, const struct stat *st)
{
	unsigned dev_major, dev_minor;
	unsigned long inode, from;

	return sscanf(line, "lock: %*d: OFDLCK %*s WRITE %*d %x:%x:%lu %lu", &dev_major, &dev_minor,
		      &inode, &from) == 4 &&
	       dev_major == major(st->st_dev) && dev_minor == minor(st->st_dev) &&
	       inode == st->st_ino && from == IP_AREA_LOCK_SESSION;
}

int ip_area_held_by(const struct ip_area *area, pid_t pid)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	bool unseen = false;
	char name[64], line[256];
	struct stat st;

	snprintf(name, sizeof(name), "/proc/%d/fdinfo", pid);
	dir = opendir(name);
	if (!dir || fstat(area->fd, &st) < 0)
		return -1;
	while ((entry = readdir(dir))) {
		int fd = entry->d_name[0] == '.'
				 ? -1
				 : openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
		_cleanup_fclose_ FILE *file = fd < 0 ? NULL : fdopen(fd, "r");

		if (!file) {
			unseen |= entry->d_name[0] != '.' && errno != ENOENT;
			continue;
		}
		while (fgets(line, sizeof(line), file))
			if (is_session_lock(line, &st))
				return 1;
	}
	return unseen ? -1 : 0;
}

pid_t ip_area_owner(const struct ip_area *area)
{
	uint32_t said = area->header->owner_pid;

	return said && said <= INT_MAX && ip_area_held_by(area, said) != 0 ? (pid_t)said : 0;
}

void ip_area_set_ended(struct ip_area *area)
{
	__atomic_store_n(&area->header->ended, area->header->session, __ATOMIC_RELEASE);
}

void ip_area_set_written(struct ip_area *area)
{
	__atomic_store_n(&area->header->written, area->header->session, __ATOMIC_RELEASE);
}

static bool is_ending(const struct ip_area *area)
{
	const uint32_t session = __atomic_load_n(&area->header->session, __ATOMIC_RELAXED);

	return __atomic_load_n(&area->header->ended, __ATOMIC_ACQUIRE) == session &&
	       __atomic_load_n(&area->header->written, __ATOMIC_ACQUIRE) != session &&
	       ip_area_has_session(area);
}

pid_t ip_area_await_written(const struct ip_area *area, uint64_t limit_ns)
{
	const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
	const uint64_t began = ip_now_ns();

	while (is_ending(area)) {
		if (ip_now_ns() - began >= limit_ns || ip_interrupted)
			return ip_area_owner(area);
		nanosleep(&pause, NULL);
	}
	return 0;
}

int ip_area_try_session(struct ip_area *area, pid_t pid)
{
	if (lock(area, IP_AREA_LOCK_SESSION, F_WRLCK) == 0)
		return 0;
	if (errno == EAGAIN || errno == EACCES)
		return 1;
	return ip_error_errno("pid %d: cannot lock its ring memory", pid);
}

int ip_area_lock_session(struct ip_area *area, pid_t pid)
{
	int ret = ip_area_try_session(area, pid);

	if (ret <= 0)
		return ret;
	return ip_error("pid %d (or a process it was forked from) has a session already, by iprobe "
			"pid %d: end that first",
			pid, ip_area_owner(area));
}

int ip_area_try_patch(struct ip_area *area, pid_t pid)
{
	if (lock(area, IP_AREA_LOCK_PATCH, F_WRLCK) == 0)
		return 1;
	if (errno != EAGAIN && errno != EACCES)
		return ip_error_errno("pid %d: cannot lock its ring memory", pid);
	return 0;
}

int ip_area_lock_patch(struct ip_area *area, pid_t pid)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};

	for (int i = 0; i < 100; i++) {
		int got = ip_area_try_patch(area, pid);

		if (got)
			return got < 0 ? -1 : 0;
		nanosleep(&pause, NULL);
	}
	return ip_error("pid %d is being patched by another iprobe: try again", pid);
}

void ip_area_unlock_patch(struct ip_area *area)
{
	lock(area, IP_AREA_LOCK_PATCH, F_UNLCK);
}
