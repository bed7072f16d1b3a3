/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks which process is at the other end of the control socket.
 *
 * Any process can take a name in the abstract namespace, and the target and its user are among
 * those who know which name. So neither end trusts a name. Both ends ask the kernel:
 *
 *   1. SO_PEERCRED and SO_PEERPIDFD tell which process has connected, or which process listened. A
 *      pidfd holds that process until all checks are done.
 *   2. The user of that process: it must be root or our own user. An iprobe of root also asks the
 *      sessions of other users, and it is told whose session that is.
 *   3. The program of that process: its file must be one of our own programs (iprobe, fperf,
 *      iprobed beside our executable). Then it is neither the target nor a file that the target's
 *      user has written. A process that we may not look into is trusted if it could look into us:
 *      it has CAP_SYS_PTRACE in our user namespace.
 *   4. The process that answers must hold the session lock of this area (/proc/PID/fdinfo).
 *   5. That process itself must have sent each packet (SCM_CREDENTIALS): a descriptor may be
 *      inherited or passed on, and the process that connected or listened may have executed iprobe
 *      since.
 *
 * What cannot be found out is refused.
 */
#ifndef IP_CONTROL_PEER_H
#define IP_CONTROL_PEER_H

#include <sys/types.h>

#include "hotpatcher/shm/area.h"

struct ip_control_peer {
	pid_t pid; /* 0: in a process namespace that we do not see */
	uid_t uid;
	int pidfd; /* -1: none */
};

/* Finds out which process is at the other end, and holds it (step 1). The caller clears *ret. 0 or
 * -1 with an error. */
int ip_control_peer_hold(int socket, struct ip_control_peer *ret);
void ip_control_peer_clear(struct ip_control_peer *peer);

/* Returns NULL, or the reason why the requests of that process must be refused (steps 2 and 3). */
const char *ip_control_peer_may_ask(const struct ip_control_peer *peer);

/* Returns NULL, or the reason why that process must not be trusted as the session of the area
 * (steps 2 to 4). pid: the target. */
const char *ip_control_peer_is_session(const struct ip_control_peer *peer,
				       const struct ip_area *area, pid_t pid);

/* Makes the socket report the sender of each packet. To be called before the socket is connected or
 * listens. 0, or -1 with errno. */
int ip_control_peer_watch(int socket);

/* Receives a packet, if that process itself has sent it (step 5). Returns what recv() does; -1 with
 * errno EACCES if another process has sent it. *ret_fd: the one descriptor that came with the
 * packet, which the caller closes, or -1. ret_fd NULL: no descriptor is accepted. */
ssize_t ip_control_peer_receive(int socket, const struct ip_control_peer *peer, void *packet,
				size_t size, int flags, int *ret_fd);

#endif
