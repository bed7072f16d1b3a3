/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets with descriptors over Unix sockets (SCM_RIGHTS).
 *
 * Who receives one closes it some day, and a close may take as long as a file system of somebody
 * else's likes. So iprobed itself receives nothing of the kind (receiver.h).
 */
#ifndef IP_FD_PASSING_H
#define IP_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define IP_PASS_FDS_MAX 8

/* Sends head and text as one packet, with n descriptors. Sizes, errno as of sendmsg; flags:
 * MSG_DONTWAIT or 0. */
ssize_t ip_send_with_fds(int socket, const void *head, size_t head_size, const void *text,
			 size_t text_size, const int *fds, size_t n, int flags);

/* Receives a packet, and at most max descriptors, which are the caller's then; those beyond are
 * closed. Sizes, errno as of recvmsg; *ret_flags: msg_flags; flags: MSG_DONTWAIT or 0. */
ssize_t ip_receive_with_fds(int socket, void *buffer, size_t size, int *fds, size_t max,
			    size_t *ret_n, int *ret_flags, int flags);

#endif
