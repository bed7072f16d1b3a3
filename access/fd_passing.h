/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets with descriptors over Unix sockets (SCM_RIGHTS).
 *
 * A process that receives a descriptor must close it later. A close may take as long as the file
 * system behind it likes, and that file system may be another user's. So iprobed itself receives no
 * descriptors (receiver.h).
 */
#ifndef IP_FD_PASSING_H
#define IP_FD_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#define IP_PASS_FDS_MAX 8

/* Sends head and text as one packet, with n descriptors. Returns the size as sendmsg does, or -1
 * with errno. flags: MSG_DONTWAIT or 0. */
ssize_t ip_send_with_fds(int socket, const void *head, size_t head_size, const void *text,
			 size_t text_size, const int *fds, size_t n, int flags);

/* Receives a packet and at most max descriptors. The caller owns these. Descriptors beyond max are
 * closed. Returns the size as recvmsg does, or -1 with errno. *ret_flags gets msg_flags. flags:
 * MSG_DONTWAIT or 0. */
ssize_t ip_receive_with_fds(int socket, void *buffer, size_t size, int *fds, size_t max,
			    size_t *ret_n, int *ret_flags, int flags);

#endif
