/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel for its table of unix sockets.
 */
#include "kernel_trace/unix_sockets.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/array.h"
#include "common/cleanup.h"

#define ANSWER_SIZE 32768

/* One socket of an answer. */
static void take(const struct nlmsghdr *header, size_t most, struct ip_unix_sockets *ret)
{
	const struct unix_diag_msg *message = NLMSG_DATA(header);
	int left = (int)header->nlmsg_len - (int)NLMSG_LENGTH(sizeof(*message));
	const struct rtattr *a =
		(const void *)((const char *)message + NLMSG_ALIGN(sizeof(*message)));
	struct ip_unix_socket socket;

	if (left < 0 || ret->n >= most)
		return;
	socket = (struct ip_unix_socket){.inode = message->udiag_ino};
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == UNIX_DIAG_PEER && RTA_PAYLOAD(a) >= sizeof(uint32_t))
			memcpy(&socket.peer, RTA_DATA(a), sizeof(socket.peer));
		else if (a->rta_type == UNIX_DIAG_NAME)
			socket.bound = true;
	}
	if (ip_array_grow(&ret->items, ret->n, sizeof(socket)) == 0)
		ret->items[ret->n++] = socket;
}

static int by_inode(const void *left, const void *right)
{
	const struct ip_unix_socket *a = left, *b = right;

	return a->inode < b->inode ? -1 : a->inode > b->inode;
}

void ip_unix_sockets_read(size_t most, struct ip_unix_sockets *ret)
{
	const struct {
		struct nlmsghdr header;
		struct unix_diag_req request;
	} question = {{.nlmsg_len = sizeof(question),
		       .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		      {.sdiag_family = AF_UNIX,
		       .udiag_states = UINT32_MAX,
		       .udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER}};
	const struct timeval patience = {.tv_sec = 1};
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	_cleanup_free_ char *answer = malloc(ANSWER_SIZE);
	bool more = true;

	*ret = (struct ip_unix_sockets){0};
	if (fd < 0 || !answer ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    send(fd, &question, sizeof(question), 0) != sizeof(question))
		return;
	while (more) {
		const ssize_t n = recv(fd, answer, ANSWER_SIZE, 0);
		const struct nlmsghdr *header = (const void *)answer;
		unsigned left = n > 0 ? n : 0;

		more = n > 0 && ret->n < most;
		for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
			if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				take(header, most, ret);
			else /* NLMSG_DONE, or an error: no such table */
				more = false;
		}
	}
	if (ret->n)
		qsort(ret->items, ret->n, sizeof(*ret->items), by_inode);
}

static const struct ip_unix_socket *find(const struct ip_unix_sockets *sockets, uint32_t inode)
{
	const struct ip_unix_socket key = {.inode = inode};

	return sockets->n ? bsearch(&key, sockets->items, sockets->n, sizeof(key), by_inode) : NULL;
}

bool ip_unix_socket_name(const struct ip_unix_sockets *sockets, unsigned long inode, char *ret,
			 size_t size)
{
	const struct ip_unix_socket *own = inode <= UINT32_MAX ? find(sockets, inode) : NULL;
	const struct ip_unix_socket *peer = own && own->peer ? find(sockets, own->peer) : NULL;

	if (!own || !own->peer)
		return false;
	snprintf(ret, size, "unix %s[%u] - %s[%u]", own->bound ? "bound:" : "", own->inode,
		 peer && peer->bound ? "bound:" : "", own->peer);
	return true;
}
