/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the process at the other end of the control socket. See control_peer.h.
 */
#include "session/control/control_peer.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "access/credentials.h"
#include "common/cleanup.h"
#include "common/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

int ip_control_peer_hold(int socket, struct ip_control_peer *ret)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	*ret = (struct ip_control_peer){.pidfd = -1};
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
		return ip_error_errno(
			"cannot see who is at the other end of a socket (SO_PEERCRED)");
	ret->pid = who.pid;
	ret->uid = who.uid;
	if (!who.pid)
		return 0;
	size = sizeof(ret->pidfd);
	if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &ret->pidfd, &size) == 0)
		return 0;
	/* Kernels before 6.5: the process is held from now on. The packets that it sends show that
	 * it is the same process. */
	ret->pidfd = ip_pidfd_open(who.pid);
	return ret->pidfd < 0 ? -1 : 0;
}

void ip_control_peer_clear(struct ip_control_peer *peer)
{
	if (peer->pidfd >= 0)
		close(peer->pidfd);
	peer->pidfd = -1;
}

static ssize_t read_text(const char *name, char *text, size_t size)
{
	_cleanup_fclose_ FILE *file = fopen(name, "re");
	size_t n = file ? fread(text, 1, size - 1, file) : 0;

	text[n] = '\0';
	return file ? (ssize_t)n : -1;
}

/* Whether the user id tells who the user is. All ids that have no name in our user namespace are
 * shown as one id, which may be ours, too. */
static bool is_known(uid_t uid)
{
	char map[4096], overflow[32];
	unsigned from, to, n;

	if (read_text("/proc/self/uid_map", map, sizeof(map)) > 0 &&
	    sscanf(map, "%u %u %u", &from, &to, &n) == 3 && from == 0 && n == UINT_MAX)
		return true;
	return read_text("/proc/sys/kernel/overflowuid", overflow, sizeof(overflow)) > 0 &&
	       uid != strtoul(overflow, NULL, 10);
}

/* 1: the process executes one of our programs; 0: it executes another program; -1: we may not see
 * that. */
static int is_iprobe(pid_t pid)
{
	static const char *const names[] = {"", "iprobe", "fperf", "iprobed"};
	char path[PATH_MAX + 16], name[64];
	struct stat theirs, ours;
	ssize_t n;
	char *base;

	snprintf(name, sizeof(name), "/proc/%d/exe", pid);
	if (stat(name, &theirs) < 0)
		return -1;
	if (stat("/proc/self/exe", &ours) == 0 && ours.st_dev == theirs.st_dev &&
	    ours.st_ino == theirs.st_ino)
		return 1;
	n = readlink("/proc/self/exe", path, PATH_MAX);
	if (n <= 0 || n == PATH_MAX)
		return 0;
	path[n] = '\0';
	base = strrchr(path, '/');
	for (size_t i = 1; base && i < sizeof(names) / sizeof(*names); i++) {
		strcpy(base + 1, names[i]);
		if (stat(path, &ours) == 0 && ours.st_dev == theirs.st_dev &&
		    ours.st_ino == theirs.st_ino)
			return 1;
	}
	return 0;
}

/* Whether the process could trace us in any case: it has CAP_SYS_PTRACE in our user namespace. A
 * user namespace below ours has another map: making one with the same map takes a privilege in
 * ours. */
static bool is_above(pid_t pid)
{
	char name[64], ours[4096], theirs[4096], status[8192];
	const char *line;
	uint64_t effective;

	snprintf(name, sizeof(name), "/proc/%d/uid_map", pid);
	if (read_text("/proc/self/uid_map", ours, sizeof(ours)) <= 0 ||
	    read_text(name, theirs, sizeof(theirs)) <= 0 || strcmp(ours, theirs))
		return false;
	snprintf(name, sizeof(name), "/proc/%d/status", pid);
	if (read_text(name, status, sizeof(status)) <= 0)
		return false;
	/* the name of the process comes first in the file; a newline in it is escaped */
	line = strstr(status, "\nCapEff:");
	return line && sscanf(line, "\nCapEff: %" SCNx64, &effective) == 1 &&
	       effective >> CAP_SYS_PTRACE & 1;
}

/* Step 3. What was read from /proc/PID counts only if the process is still alive afterwards. */
static const char *check_program(const struct ip_control_peer *peer)
{
	int found = peer->pid ? is_iprobe(peer->pid) : -1;

	if (found < 0 && peer->pid && is_above(peer->pid))
		found = 1;
	if (found < 0)
		return "it is not to be seen whether that is an iprobe";
	if (!found)
		return "that is no iprobe, or not the same that this one belongs to";
	return ip_pidfd_lives(peer->pidfd) ? NULL : "that has ended";
}

const char *ip_control_peer_may_ask(const struct ip_control_peer *peer)
{
	if ((peer->uid != 0 && peer->uid != geteuid()) || !is_known(peer->uid))
		return "the session belongs to another user: only that user, and root, may change "
		       "it (iprobe detach ends it, where you may trace the process)";
	return check_program(peer) ? "who asks is no iprobe, or not the same as the session's: "
				     "nothing was changed"
				   : NULL;
}

const char *ip_control_peer_is_session(const struct ip_control_peer *peer,
				       const struct ip_area *area, pid_t pid)
{
	const char *why;
	int holds;

	if ((peer->uid != 0 && peer->uid != geteuid() && geteuid() != 0) || !is_known(peer->uid))
		return "that is another user's";
	if (peer->pid == pid)
		return "that is the process itself";
	why = check_program(peer);
	if (why)
		return why;
	holds = ip_area_held_by(area, peer->pid);
	if (holds < 0 && is_above(peer->pid))
		holds = 1;
	if (holds <= 0)
		return "that does not have its session";
	return ip_pidfd_lives(peer->pidfd) ? NULL : "that has ended";
}

int ip_control_peer_watch(int socket)
{
	const int on = 1;

	return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

ssize_t ip_control_peer_receive(int socket, const struct ip_control_peer *peer, void *packet,
				size_t size, int flags, int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} room;
	struct iovec part = {packet, size};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &room,
				 .msg_controllen = ret_fd ? CMSG_SPACE(sizeof(struct ucred)) +
								    CMSG_SPACE(sizeof(int))
							  : CMSG_SPACE(sizeof(struct ucred))};
	/* descriptors that came along beyond this find no room and are closed by the kernel */
	ssize_t n = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
	_cleanup_close_ int fd = -1;
	bool his = false;
	struct ucred who;

	if (ret_fd)
		*ret_fd = -1;
	if (n <= 0)
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level != SOL_SOCKET)
			continue;
		if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len >= CMSG_LEN(sizeof(who))) {
			memcpy(&who, CMSG_DATA(c), sizeof(who));
			his = who.pid == peer->pid;
		}
		/* padding in the buffer may hold a second descriptor: a kernel gives as many as
		 * there are bytes for */
		for (size_t i = 0;
		     c->cmsg_type == SCM_RIGHTS && CMSG_LEN((i + 1) * sizeof(int)) <= c->cmsg_len;
		     i++) {
			if (fd >= 0)
				close(fd);
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
		}
	}
	if (!his) {
		errno = EACCES;
		return -1;
	}
	if (ret_fd)
		*ret_fd = ip_steal_fd(&fd);
	return n;
}
