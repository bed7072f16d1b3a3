/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop of iprobed's front. See front.h.
 */
#include "hotpatcher/front.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"
#include "hotpatcher/request.h"
#include "hotpatcher/stop.h"

#define SILENCE_NS 5000000000ull /* how long a connection may ask for nothing */

struct connection {
	int fd; /* -1: free */
	uint32_t id;
	uid_t uid;
	bool asked; /* it is the other side's to end it */
	uint64_t since;
};

static struct connection connections[IP_FRONT_CONNECTIONS];
static char packet[IP_REQUEST_SIZE_MAX + 1];

ssize_t ip_send_with_fds(int socket, const void *head, size_t head_size, const void *text, size_t text_size,
			 const int *fds, size_t n)
{
	struct iovec parts[2] = {{(void *)head, head_size}, {(void *)text, text_size}};
	union {
		char space[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

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
		sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent;
}

ssize_t ip_receive_with_fds(int socket, void *buffer, size_t size, int *fds, size_t max, size_t *ret_n,
			    int *ret_flags)
{
	struct iovec part = {buffer, size};
	union {
		char space[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control.space,
				 .msg_controllen = sizeof(control.space)};
	ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

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

static void drop(struct connection *c)
{
	close(c->fd);
	c->fd = -1;
}

static void say(int fd, const char *format, const char *what)
{
	char text[2048];
	int n = snprintf(text, sizeof(text), format, what);

	send(fd, text, n < (int)sizeof(text) ? n : (int)sizeof(text) - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void tell_back(int back, enum ip_front_what what, uint32_t id)
{
	const struct ip_front_packet p = {.what = what, .id = id};

	if (ip_send_with_fds(back, &p, sizeof(p), NULL, 0, NULL, 0) < 0)
		_exit(1);
}

static void accept_one(int listening)
{
	static uint32_t last;
	struct connection *found = NULL;
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	unsigned same = 0;
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0)
		return;
	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
	for (unsigned i = 0; i < IP_FRONT_CONNECTIONS; i++) {
		struct connection *c = &connections[i];

		if (c->fd < 0)
			found = c;
		else
			same += c->uid == peer.uid;
	}
	if (!found || same >= IP_FRONT_PER_USER) {
		say(fd, "refused %s\n", "too many connections: try again when some have ended");
		close(fd);
		return;
	}
	*found = (struct connection){.fd = fd, .id = ++last, .uid = peer.uid, .since = ip_now_ns()};
}

/* The request of a connection: handed on, or refused. */
static void take_request(struct connection *c, int back, size_t size, const int *fds, size_t nfds)
{
	const struct ip_front_packet p = {.what = IP_FRONT_REQUEST, .id = c->id};
	struct ip_request request;
	int all[1 + IP_REQUEST_FDS] = {c->fd};

	if (ip_request_parse(packet, size, &request) < 0) {
		say(c->fd, "refused %s\n", ip_error_message());
		drop(c);
		return;
	}
	if (nfds != ip_request_fds(request.what)) {
		say(c->fd, "refused %s\n", "request: not the descriptors that it needs");
		drop(c);
	} else {
		memcpy(all + 1, fds, nfds * sizeof(*fds));
		c->asked = true;
		if (ip_send_with_fds(back, &p, sizeof(p), packet, size, all, 1 + nfds) < 0)
			_exit(1);
	}
	ip_request_clear(&request);
}

static void read_connection(struct connection *c, int back)
{
	int fds[IP_REQUEST_FDS], flags = 0;
	size_t nfds;
	ssize_t n = ip_receive_with_fds(c->fd, packet, sizeof(packet), fds, IP_REQUEST_FDS, &nfds, &flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		if (c->asked)
			tell_back(back, IP_FRONT_GONE, c->id);
		drop(c);
	} else if (c->asked) {
		if (n >= 4 && !memcmp(packet, "stop", 4))
			tell_back(back, IP_FRONT_STOP, c->id);
	} else if (flags & (MSG_TRUNC | MSG_CTRUNC)) {
		say(c->fd, "refused %s\n", "request: too large, or too many descriptors");
		drop(c);
	} else {
		take_request(c, back, n, fds, nfds);
	}
	for (size_t i = 0; i < nfds; i++)
		close(fds[i]);
}

/* 0; -1: it is over. */
static int read_back(int back)
{
	struct ip_front_packet p;
	size_t none;
	int flags;
	ssize_t n = ip_receive_with_fds(back, &p, sizeof(p), NULL, 0, &none, &flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(p))
		return -1;
	for (unsigned i = 0; i < IP_FRONT_CONNECTIONS; i++)
		if (connections[i].fd >= 0 && connections[i].id == p.id)
			drop(&connections[i]);
	return 0;
}

static void run(int listening, int back)
{
	struct pollfd polled[2 + IP_FRONT_CONNECTIONS];

	for (;;) {
		uint64_t now;

		polled[0] = (struct pollfd){.fd = back, .events = POLLIN};
		polled[1] = (struct pollfd){.fd = listening, .events = POLLIN};
		for (unsigned i = 0; i < IP_FRONT_CONNECTIONS; i++)
			polled[2 + i] = (struct pollfd){.fd = connections[i].fd, .events = POLLIN};
		if (poll(polled, 2 + IP_FRONT_CONNECTIONS, 1000) < 0 && errno != EINTR)
			_exit(1);
		if (polled[0].revents && read_back(back) < 0)
			_exit(0);
		now = ip_now_ns();
		for (unsigned i = 0; i < IP_FRONT_CONNECTIONS; i++) {
			struct connection *c = &connections[i];

			if (c->fd >= 0 && c->fd == polled[2 + i].fd && polled[2 + i].revents)
				read_connection(c, back);
			if (c->fd >= 0 && !c->asked && now - c->since > SILENCE_NS)
				drop(c);
		}
		if (polled[1].revents)
			accept_one(listening);
	}
}

pid_t ip_front_start(int listening, int *ret)
{
	int pair[2];
	pid_t pid, parent = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ip_error_errno("cannot make a pair of sockets");
	pid = fork();
	if (pid < 0) {
		close(pair[0]);
		close(pair[1]);
		return ip_error_errno("cannot start the process for the socket");
	}
	if (pid) {
		close(pair[1]);
		*ret = pair[0];
		return pid;
	}
	close(pair[0]);
	for (unsigned i = 0; i < IP_FRONT_CONNECTIONS; i++)
		connections[i].fd = -1;
	prctl(PR_SET_NAME, "iprobed-socket");
	signal(SIGINT, SIG_IGN); /* the other process ends us */
	if (ip_front_confine() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent) {
		fprintf(stderr, "iprobed: %s\n", ip_error_message());
		_exit(1);
	}
	run(listening, pair[1]);
	_exit(0);
}
