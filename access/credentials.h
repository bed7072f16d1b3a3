/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of ptrace_access.h, gathered from the kernel.
 *
 * A process id may come to mean another process between two looks. So each process is held by a
 * pidfd first, and what was read of /proc/PID counts only if that pidfd says afterwards that its
 * process lives: then the number has meant it all the time.
 *
 * Who asks is known by the socket: SO_PEERCRED are the effective ids at connect(), which nobody can
 * change afterwards. The real ids are those of its process now, which may have executed a setuid
 * program since; so all of them must be the same one user, or it is refused. For the same reason
 * capabilities count for root alone: any other user that has CAP_SYS_PTRACE needs nobody's help,
 * and could have come by it after connect(), from a program with file capabilities. And who asks
 * must live in our user namespace: numbers of users mean something else in others.
 */
#ifndef IP_CREDENTIALS_H
#define IP_CREDENTIALS_H

#include "access/ptrace_access.h"

/* Of its own resources (getrlimit(2)), the soft ones; UINT64_MAX: none. */
struct ip_peer_limits {
	uint64_t file_size, address_space, data, processes;
};

struct ip_peer {
	pid_t pid;
	int pidfd;
	struct ip_caller_credentials facts;
	gid_t *groups; /* supplementary */
	size_t ngroups;
	struct ip_peer_limits limits;
};

/* Who is at the other end of a Unix socket, which must be one that we have accepted ourselves:
 * others say who made them, too, and that may be root (one that listens, one of a pair, one that
 * leads to another daemon, or comes from a socket of the same name in another mount namespace).
 * 0, or -1 with an error where it is not one plain user, or not there any more. */
int ip_credentials_of_peer(int socket, struct ip_peer *ret);
void ip_peer_clear(struct ip_peer *peer);

/* Of process pid, which pidfd holds. caller: whose user is asked about as owner of namespaces. 0 or
 * -1 with an error. */
int ip_credentials_of_target(pid_t pid, int pidfd, uid_t caller, struct ip_target_credentials *ret);

/* Opens a pidfd; -1 with an error. */
int ip_pidfd_open(pid_t pid);
bool ip_pidfd_lives(int pidfd);

#endif
