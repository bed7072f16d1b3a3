/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is at the other end of the control socket.
 *
 * Names in the abstract namespace can be taken by anybody, and the target and its user are among
 * those who know which; so neither end believes a name. Both ends ask the kernel:
 *
 *   1. SO_PEERCRED and SO_PEERPIDFD: the process that has connected, or that listened, held by a
 *      pidfd until all is known.
 *   2. Its user: root, or ours. A root that asks goes to the sessions of other users, too, and is
 *      told whose it is.
 *   3. Its program: the file is one of our own (iprobe, fperf, iprobed beside our executable), so
 *      it is neither the target nor something that the target's user has written. Who we may not
 *      look into is believed if it could look into us: CAP_SYS_PTRACE in our user namespace.
 *   4. Who answers holds the session's lock of this area (/proc/PID/fdinfo).
 *   5. Each packet was sent by that process itself (SCM_CREDENTIALS): a descriptor may be inherited
 *      or handed on, and what has connected or listened may have executed iprobe since.
 *
 * What is not known is refused.
 */
#ifndef IP_CONTROL_PEER_H
#define IP_CONTROL_PEER_H

#include <sys/types.h>

#include "hotpatcher/shm/area.h"

struct ip_control_peer {
	pid_t pid; /* 0: in a process namespace that we do not see */
	uid_t uid;
	int pidfd; /* -1 */
};

/* Holds who is at the other end. 0 or -1 with an error. */
int ip_control_peer_hold(int socket, struct ip_control_peer *ret);
void ip_control_peer_clear(struct ip_control_peer *peer);

/* NULL, or why who asks is not to be obeyed (steps 2 and 3). */
const char *ip_control_peer_may_ask(const struct ip_control_peer *peer);

/* NULL, or why who answers is not to be believed as the session of the area (steps 2 to 4). pid: of
 * the target. */
const char *ip_control_peer_is_session(const struct ip_control_peer *peer,
				       const struct ip_area *area, pid_t pid);

/* Has the socket tell who sends each packet, before it is connected or listens. */
int ip_control_peer_watch(int socket);

/* A packet, if that process itself has sent it. As recv(); -1 with errno EACCES where another
 * has. *ret_fd: the one descriptor that came with it, or -1; NULL: none is taken. */
ssize_t ip_control_peer_receive(int socket, const struct ip_control_peer *peer, void *packet,
				size_t size, int flags, int *ret_fd);

#endif
