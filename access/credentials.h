/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gathers from the kernel the facts that ptrace_access.h judges.
 *
 * A process id may come to mean another process between two looks. So the caller first holds each
 * process by a pidfd. What was read of /proc/PID counts only if that pidfd says afterwards that its
 * process still lives: then the number has meant that process all the time.
 *
 * The kernel tells the identity of a client by the socket: SO_PEERCRED holds the effective ids of
 * the client at connect(), and nobody can change them afterwards. The real ids are those that the
 * client's process has now, and that process may have executed a setuid program since connect(). So
 * all ids must be those of one user, or the client is refused. For the same reason capabilities
 * count for root alone: any other user that has CAP_SYS_PTRACE does not need our help, and the
 * process could have got the capability after connect(), from a program with file capabilities. The
 * client must also live in our user namespace: in another namespace a user's number means another
 * user.
 */
#ifndef IP_CREDENTIALS_H
#define IP_CREDENTIALS_H

#include "access/ptrace_access.h"

/* The client's own resource limits (getrlimit(2)), the soft ones. UINT64_MAX: no limit. */
struct ip_peer_limits {
	uint64_t file_size, address_space, data, processes;
};

struct ip_peer {
	pid_t pid;
	int pidfd;
	struct ip_tracer_credentials facts;
	gid_t *groups; /* supplementary groups */
	size_t ngroups;
	struct ip_peer_limits limits;
};

/* Finds out which process is at the other end of a Unix socket. We must have accepted that socket
 * ourselves: on any other socket SO_PEERCRED names the process that made the socket, and that may
 * be root (a listening socket, one of a pair, a socket that leads to another daemon, or one that
 * comes from a socket of the same name in another mount namespace). Returns 0, or -1 with an error
 * if the client is not one plain user, or has ended. */
int ip_credentials_of_peer(int socket, struct ip_peer *ret);
void ip_peer_clear(struct ip_peer *peer);

/* Reads the credentials of process pid, which pidfd holds. caller: the user that is compared with
 * the owner of the target's user namespace. Returns 0, or -1 with an error. */
int ip_credentials_of_target(pid_t pid, int pidfd, uid_t caller, struct ip_target_credentials *ret);

/* Opens a pidfd. Returns -1 with an error. */
int ip_pidfd_open(pid_t pid);
bool ip_pidfd_lives(int pidfd);

#endif
