/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process at one connection. See receiver.h.
 */
#include "iprobed/receiver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "access/fd_passing.h"
#include "access/protocol.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/notice.h"
#include "common/now.h"

/* State of this process. */
static struct {
	int orders, words, connection;
	bool asked;
	uint64_t since;
	/* the client's descriptors. This process never closes them; its end does */
	int fds[IP_REQUEST_FDS];
	size_t nfds;
} receiver;
static char packet[IP_REQUEST_SIZE_MAX + 1];

static void write_all(const void *data, size_t size)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(receiver.words, (const char *)data + done, size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			_exit(0);
		done += n;
	}
}

static void tell(enum ip_receiver_message word, const char *text, size_t size)
{
	const struct ip_receiver_header head = {.what = word, .size = size};

	write_all(&head, sizeof(head));
	write_all(text, size);
}

static void say(const char *text, size_t size)
{
	send(receiver.connection, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void refuse(const char *why)
{
	char text[2048];
	int n = snprintf(text, sizeof(text), "refused %s\n", why);

	say(text, n < (int)sizeof(text) ? n : (int)sizeof(text) - 1);
	_exit(0);
}

static void take_order(void)
{
	struct {
		struct ip_receiver_header head;
		char text[IP_RECEIVER_TEXT_MAX];
	} order;
	int fd = -1, flags;
	size_t nfds;
	ssize_t n = ip_receive_with_fds(receiver.orders, &order, sizeof(order), &fd, 1, &nfds,
					&flags, 0);

	if (n < 0 && errno == EINTR)
		return;
	if (n < (ssize_t)sizeof(order.head))
		_exit(0); /* iprobed has ended, or has closed the connection */
	n -= sizeof(order.head);
	switch (order.head.what) {
	case IP_RECEIVER_CONNECTION:
		receiver.connection = fd;
		break;
	case IP_RECEIVER_WORKER:
		ip_send_with_fds(fd, "", 1, NULL, 0, receiver.fds, receiver.nfds, MSG_DONTWAIT);
		close(fd);
		break;
	case IP_RECEIVER_EVENTS:
		ip_send_with_fds(receiver.connection, "events\n", 7, NULL, 0, &fd, 1,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		break;
	case IP_RECEIVER_SAY:
		say(order.text, n);
		break;
	case IP_RECEIVER_LAST_WORD:
		say(order.text, n);
		_exit(0);
	case IP_RECEIVER_GO:
		receiver.since = ip_now_ns();
		break;
	}
}

static void take_request(size_t size)
{
	struct ip_request request;

	if (ip_request_parse(packet, size, &request) < 0)
		refuse(ip_error_message());
	if (receiver.nfds != ip_request_fds(request.what))
		refuse("request: not the descriptors that it needs");
	ip_request_clear(&request);
	receiver.asked = true;
	tell(IP_RECEIVER_REQUEST, packet, size);
}

static void read_connection(void)
{
	int flags = 0, more[1];
	size_t none;
	ssize_t n = receiver.asked
			    ? ip_receive_with_fds(receiver.connection, packet, sizeof(packet), more,
						  0, &none, &flags, MSG_DONTWAIT)
			    : ip_receive_with_fds(receiver.connection, packet, sizeof(packet),
						  receiver.fds, IP_REQUEST_FDS, &receiver.nfds,
						  &flags, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		if (receiver.asked)
			tell(IP_RECEIVER_GONE, NULL, 0);
		_exit(0);
	}
	if (receiver.asked) {
		if (n >= 4 && !memcmp(packet, "stop", 4))
			tell(IP_RECEIVER_STOP, NULL, 0);
	} else if (flags & (MSG_TRUNC | MSG_CTRUNC)) {
		refuse("request: too large, or too many descriptors");
	} else {
		take_request(n);
	}
}

static void run(void)
{
	receiver.connection = -1;
	tell(IP_RECEIVER_READY, NULL, 0);
	/* Do not use the connection before iprobed has closed its own descriptor. Otherwise
	 * iprobed's close would drop what is left in it if this process had ended. */
	while (!receiver.since)
		take_order();
	for (;;) {
		struct pollfd polled[] = {{.fd = receiver.orders, .events = POLLIN},
					  {.fd = receiver.connection, .events = POLLIN}};

		if (poll(polled, 2, receiver.asked ? -1 : 1000) < 0 && errno != EINTR)
			_exit(1);
		if (polled[0].revents)
			take_order();
		if (polled[1].revents)
			read_connection();
		if (!receiver.asked && ip_now_ns() - receiver.since > IP_RECEIVER_SILENCE_NS)
			_exit(0);
	}
}

/* Runs in the child. No other descriptor of iprobed may stay open here: otherwise other connections
 * would not end with their processes. */
static void begin(int orders, int words, pid_t parent)
{
	orders = fcntl(orders, F_DUPFD_CLOEXEC, 10);
	words = fcntl(words, F_DUPFD_CLOEXEC, 10);
	receiver.orders = dup3(orders, 3, O_CLOEXEC);
	receiver.words = dup3(words, 4, O_CLOEXEC);
	prctl(PR_SET_NAME, "iprobed-socket");
	signal(SIGINT, SIG_IGN); /* iprobed ends this process */
	if (receiver.orders < 0 || receiver.words < 0 || syscall(SYS_close_range, 5, ~0u, 0) < 0) {
		ip_error_errno("cannot start a process for a connection");
	} else if (ip_receiver_confine() == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
		   getppid() == parent) {
		run();
	}
	ip_notice_from("iprobed", "%s", ip_error_message());
	_exit(1);
}

int ip_receiver_start(struct ip_receiver *ret)
{
	_cleanup_close_ int orders = -1, words = -1;
	int pair[2], ends[2];
	pid_t parent = getpid();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return ip_error_errno("cannot make a pair of sockets");
	orders = pair[1];
	ret->to = pair[0];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		close(ret->to);
		return ip_error_errno("cannot make a pipe");
	}
	words = ends[1];
	ret->from = ends[0];
	/* Step 2: nothing can be put into iprobed's end, where iprobed would have to drop it. */
	if (shutdown(ret->to, SHUT_RD) == 0 && fcntl(ret->from, F_SETFL, O_NONBLOCK) == 0) {
		ret->pid = fork();
		if (ret->pid == 0)
			begin(orders, words, parent);
		if (ret->pid > 0)
			return 0;
	}
	ip_error_errno("cannot start a process for a connection");
	close(ret->to);
	close(ret->from);
	return -1;
}

int ip_receiver_command(const struct ip_receiver *f, enum ip_receiver_command order, int fd,
			const char *text)
{
	const struct ip_receiver_header head = {.what = order};

	return ip_send_with_fds(f->to, &head, sizeof(head), text, text ? strlen(text) : 0, &fd,
				fd >= 0, MSG_DONTWAIT) < 0
		       ? -1
		       : 0;
}
