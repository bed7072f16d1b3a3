/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers credentials from the kernel. See credentials.h.
 */
#include "access/credentials.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/error.h"
#include "common/file.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define NAMESPACES_MAX 64 /* the kernel allows 32 levels */

int ip_pidfd_open(pid_t pid)
{
	int fd = syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0)
		return fd;
	return errno == ESRCH
		       ? ip_error("pid %d: no such process (ps and pgrep show what there is)", pid)
	       : errno == EINVAL || errno == ENOENT
		       ? ip_error("pid %d is no process, or a thread of one: name the process", pid)
		       : ip_error_errno("pid %d: pidfd_open", pid);
}

bool ip_pidfd_lives(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 0;
}

struct status {
	struct ip_ids ids;
	uint64_t permitted, effective;
	/* owner of the status file: root if the process is not dumpable (task_dump_owner()). It
	 * tells that of a thread alone that has memory: of a zombie it tells nothing */
	uid_t owner;
	gid_t group;
	bool has_memory;
};

/* The kernel keeps credentials by thread. thread is the part of the path between "/proc/PID/" and
 * "status": "" or "task/TID/". */
static int read_status(pid_t pid, const char *thread, struct status *ret)
{
	_cleanup_fclose_ FILE *file = NULL;
	struct stat st;
	char name[64], line[512];
	unsigned found = 0;
	char unit;

	snprintf(name, sizeof(name), "/proc/%d/%sstatus", pid, thread);
	file = fopen(name, "re");
	if (!file || fstat(fileno(file), &st) < 0)
		return ip_error_errno("pid %d: cannot read %s", pid, name);
	while (fgets(line, sizeof(line), file)) {
		found |= (sscanf(line, "Uid: %u %u %u", &ret->ids.ruid, &ret->ids.euid,
				 &ret->ids.suid) == 3)
			 << 0;
		found |= (sscanf(line, "Gid: %u %u %u", &ret->ids.rgid, &ret->ids.egid,
				 &ret->ids.sgid) == 3)
			 << 1;
		found |= (sscanf(line, "CapPrm: %lx", &ret->permitted) == 1) << 2;
		found |= (sscanf(line, "CapEff: %lx", &ret->effective) == 1) << 3;
		ret->has_memory |= sscanf(line, "VmSize: %*u %c", &unit) == 1;
	}
	ret->owner = st.st_uid;
	ret->group = st.st_gid;
	return found == 15 ? 0 : ip_error("pid %d has ended", pid);
}

/* For a thread of root the owner of the file does not show it. But then the ids decide. */
static bool shows_dumpable(const struct status *s)
{
	return s->owner == s->ids.euid && s->group == s->ids.egid;
}

/* A thread that is made while we read has the ids of a thread that we have seen, or it changes them
 * later. Where such a change must not happen, the caller asks again when all threads are stopped
 * (delegation.h). A thread that ends meanwhile does not count. All threads that have memory have
 * the same, so each of them must say that it is dumpable. */
static int look_at_threads(pid_t pid, const struct status *leader,
			   struct ip_target_credentials *ret)
{
	_cleanup_closedir_ DIR *dir = NULL;
	const struct dirent *entry;
	bool has_memory = false;
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/task", pid);
	dir = opendir(name);
	if (!dir)
		return ip_error_errno("pid %d: cannot look at its threads", pid);
	ret->dumpable = true;
	while ((entry = readdir(dir))) {
		struct status status = {0};

		if (!isdigit((unsigned char)*entry->d_name))
			continue;
		snprintf(name, sizeof(name), "task/%d/", atoi(entry->d_name));
		if (read_status(pid, name, &status) < 0) {
			snprintf(name, sizeof(name), "/proc/%d/task/%d", pid, atoi(entry->d_name));
			if (ip_access(name, F_OK) == 0 || errno != ENOENT)
				return ip_error("pid %d: thread %d cannot be looked at", pid,
						atoi(entry->d_name));
			continue;
		}
		ret->mixed |= memcmp(&status.ids, &leader->ids, sizeof(status.ids)) != 0;
		ret->permitted |= status.permitted;
		has_memory |= status.has_memory;
		ret->dumpable &= !status.has_memory || shows_dumpable(&status);
	}
	ret->dumpable &= has_memory; /* else it is not known */
	return 0;
}

/* The kernel lets look at it who may trace the process: in a container, or under a security module,
 * root may lack that, too. */
static int open_userns(pid_t pid)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "/proc/%d/ns/user", pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && (errno == EACCES || errno == EPERM))
		return ip_error("pid %d is out of reach here, also for root (its user namespace "
				"cannot be seen: %s): nobody traces it, whatever the policy says",
				pid, strerror(errno));
	return fd >= 0 ? fd : ip_error_errno("pid %d: cannot see its user namespace", pid);
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Walks up from the target's user namespace until it meets ours. */
static int find_userns(pid_t pid, uid_t caller, struct ip_target_credentials *ret)
{
	_cleanup_close_ int ours = open_userns(getpid());
	_cleanup_close_ int at = ours < 0 ? -1 : open_userns(pid);

	if (at < 0)
		return -1;
	ret->userns = IP_USERNS_SAME;
	ret->owner = false;
	for (int i = 0; i < NAMESPACES_MAX; i++) {
		uid_t owner = (uid_t)-1;
		int parent;

		if (same_file(at, ours))
			return 0;
		ret->userns = IP_USERNS_OTHER;
		if (ioctl(at, NS_GET_OWNER_UID, &owner) < 0)
			return 0;
		parent = ioctl(at, NS_GET_PARENT);
		if (parent < 0)
			return 0; /* EPERM: the target's namespace is not below ours */
		if (same_file(parent, ours)) {
			ret->userns = IP_USERNS_BELOW;
			ret->owner = owner == caller;
			close(parent);
			return 0;
		}
		close(at);
		at = parent;
	}
	return 0;
}

int ip_credentials_of_target(pid_t pid, int pidfd, uid_t caller, struct ip_target_credentials *ret)
{
	struct status status = {0};

	*ret = (struct ip_target_credentials){0};
	if (read_status(pid, "", &status) < 0 || find_userns(pid, caller, ret) < 0)
		return -1;
	ret->permitted = status.permitted;
	if (look_at_threads(pid, &status, ret) < 0)
		return -1;
	if (!ip_pidfd_lives(pidfd))
		return ip_error("pid %d has ended", pid);
	ret->ids = status.ids;
	return 0;
}

static int read_groups(int socket, struct ip_peer *peer)
{
	socklen_t size = 0;

	if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, NULL, &size) < 0 && errno != ERANGE)
		return ip_error_errno("cannot see the groups of the peer (SO_PEERGROUPS)");
	peer->groups = calloc(size ? size : 1, 1);
	if (!peer->groups)
		return ip_error("out of memory");
	if (size && getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &size) < 0)
		return ip_error_errno("cannot see the groups of the peer (SO_PEERGROUPS)");
	peer->ngroups = size / sizeof(*peer->groups);
	return 0;
}

/* Kernels before 6.5 have no SO_PEERPIDFD. There the process is held from now on, and the process
 * that the id names now must be the one that connected. */
static int hold_peer(int socket, struct ip_peer *peer)
{
	socklen_t size = sizeof(peer->pidfd);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &peer->pidfd, &size) == 0)
		return 0;
	peer->pidfd = -1;
	if (errno != ENOPROTOOPT)
		return ip_error_errno("cannot hold the peer (SO_PEERPIDFD)");
	peer->pidfd = ip_pidfd_open(peer->pid);
	return peer->pidfd < 0 ? -1 : 0;
}

/* A client names its targets by process ids, so it must live in our process namespace. */
static int check_pidns(pid_t pid)
{
	char name[64];

	snprintf(name, sizeof(name), "/proc/%d/ns/pid", pid);
	_cleanup_close_ int ours = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
	_cleanup_close_ int theirs = open(name, O_RDONLY | O_CLOEXEC);
	return ours >= 0 && theirs >= 0 && same_file(ours, theirs)
		       ? 0
		       : ip_error("pid %d asks from another process namespace, where numbers mean "
				  "other processes: ask from outside of it",
				  pid);
}

/* A line: "Max file size             unlimited            unlimited            bytes" */
static int read_limits(pid_t pid, struct ip_peer_limits *ret)
{
	const struct {
		const char *name;
		uint64_t *value;
	} all[] = {{"Max file size", &ret->file_size},
		   {"Max address space", &ret->address_space},
		   {"Max data size", &ret->data},
		   {"Max processes", &ret->processes}};
	_cleanup_fclose_ FILE *file = NULL;
	char name[64], line[256];
	unsigned found = 0;

	snprintf(name, sizeof(name), "/proc/%d/limits", pid);
	file = fopen(name, "re");
	while (file && fgets(line, sizeof(line), file))
		for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
			size_t n = strlen(all[i].name);

			if (strncmp(line, all[i].name, n) || line[n] != ' ')
				continue;
			*all[i].value = UINT64_MAX; /* "unlimited" */
			sscanf(line + n, "%lu", all[i].value);
			found |= 1u << i;
		}
	return found == 15 ? 0 : ip_error("cannot see the limits of who asks in %s", name);
}

static int look_at_peer(int socket, struct ip_peer *peer)
{
	struct ip_target_credentials where = {0};
	struct status status = {0};
	const struct ip_ids *ids = &status.ids;
	struct ucred cred;
	socklen_t size = sizeof(cred);

	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return ip_error_errno("cannot see who asks (SO_PEERCRED)");
	if (cred.pid <= 0)
		return ip_error(
			"who asks lives in a process namespace that cannot be seen from here");
	peer->pid = cred.pid;
	if (hold_peer(socket, peer) < 0 || read_groups(socket, peer) < 0 ||
	    read_status(cred.pid, "", &status) < 0 || find_userns(cred.pid, cred.uid, &where) < 0 ||
	    read_limits(cred.pid, &peer->limits) < 0)
		return -1;
	if (check_pidns(cred.pid) < 0)
		return -1;
	if (!ip_pidfd_lives(peer->pidfd))
		return ip_error("who asks (pid %d) has ended", cred.pid);
	if (where.userns != IP_USERNS_SAME)
		return ip_error("pid %d asks from another user namespace: ask from outside of it",
				cred.pid);
	if (ids->ruid != cred.uid || ids->euid != cred.uid || ids->suid != cred.uid ||
	    ids->rgid != cred.gid || ids->egid != cred.gid || ids->sgid != cred.gid)
		return ip_error("pid %d asks with the ids of more than one user or group "
				"(setuid?): ask as one",
				cred.pid);
	peer->facts.ids = status.ids;
	peer->facts.permitted = cred.uid ? 0 : status.permitted;
	peer->facts.effective = cred.uid ? 0 : status.effective;
	return 0;
}

int ip_credentials_of_peer(int socket, struct ip_peer *ret)
{
	*ret = (struct ip_peer){.pidfd = -1};
	if (look_at_peer(socket, ret) == 0)
		return 0;
	ip_peer_clear(ret);
	return -1;
}

void ip_peer_clear(struct ip_peer *peer)
{
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	free(peer->groups);
	*peer = (struct ip_peer){.pidfd = -1};
}
