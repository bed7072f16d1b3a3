/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives packets with descriptors. See fd_passing.h.
 */
#include "access/fd_passing.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t ip_send_with_fds(int socket, const void *head, size_t head_size, const void *text,
			 size_t text_size, const int *fds, size_t n, int flags)
{
	struct iovec parts[2] = {{(void *)head, head_size}, {(void *)text, text_size}};
	union {
		char space[CMSG_SPACE(IP_PASS_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

	if (n > IP_PASS_FDS_MAX) {
		errno = EINVAL;
		return -1;
	}
	if (n) {
		struct cmsghdr *c;

		message.msg_control = control.space;
		message.msg_controllen = CMSG_SPACE(n * sizeof(int));
		c = CMSG_FIRSTHDR(&message);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	}
	do
		sent = sendmsg(socket, &message, MSG_NOSIGNAL | flags);
	while (sent < 0 && errno == EINTR);
	return sent;
}

ssize_t ip_receive_with_fds(int socket, void *buffer, size_t size, int *fds, size_t max,
			    size_t *ret_n, int *ret_flags, int flags)
{
	struct iovec part = {buffer, size};
	union {
		char space[CMSG_SPACE(IP_PASS_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);

	*ret_n = 0;
	if (n < 0)
		return n;
	*ret_flags = message.msg_flags;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		size_t count = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
				       ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
				       : 0;

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*ret_n < max)
				fds[(*ret_n)++] = fd;
			else
				close(fd);
		}
	}
	return n;
}
