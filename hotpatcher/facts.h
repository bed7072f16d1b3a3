/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts of privilege.h, gathered from the kernel.
 *
 * A process id may come to mean another process between two looks. So each process is held by a pidfd first, and what was read of /proc/PID
 * counts only if that pidfd says afterwards that its process lives: then the number has meant it all the time.
 *
 * Who asks is known by the socket: SO_PEERCRED are the effective ids at connect(), which nobody can change afterwards. The real ids
 * are those of its process now, which may have executed a setuid program since; so all of them must be the same one user, or it is
 * refused. For the same reason capabilities count for root alone: any other user that has CAP_SYS_PTRACE needs nobody's help, and
 * could have come by it after connect(), from a program with file capabilities. And who asks must live in our user namespace: numbers of
 * users mean something else in others.
 */
#ifndef IP_FACTS_H
#define IP_FACTS_H

#include <sys/socket.h>
#include <sys/un.h>

#include "hotpatcher/privilege.h"

struct ip_peer {
	pid_t pid;
	int pidfd;
	struct ip_caller_facts facts;
	gid_t *groups; /* supplementary */
	size_t ngroups;
};

/* Whether socket is the server's end of a connection to the socket that listens there. Others say who made them, too: one that listens, one of a pair,
 * one that leads to another daemon; and what they say is root. 0, or -1 with an error. */
int ip_facts_check_connection(int socket, const struct sockaddr_un *listening, socklen_t listening_size);

/* Who is at the other end of a Unix socket. 0, or -1 with an error where it is not one plain user, or not there any more. */
int ip_facts_of_peer(int socket, struct ip_peer *ret);
void ip_peer_clear(struct ip_peer *peer);

/* Of process pid, which pidfd holds. caller: whose user is asked about as owner of namespaces. 0 or -1 with an error. */
int ip_facts_of_target(pid_t pid, int pidfd, uid_t caller, struct ip_target_facts *ret);

/* Opens a pidfd; -1 with an error. */
int ip_pidfd_open(pid_t pid);
bool ip_pidfd_lives(int pidfd);

#endif
