/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the control socket.
 */
#include "session/control/control_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "access/fd_passing.h"
#include "common/cleanup.h"
#include "common/error.h"
#include "common/interrupted.h"
#include "common/notice.h"
#include "hotpatcher/ptrace/stop.h"
#include "session/control/control_peer.h"
#include "session/session.h"

#define CLIENTS	   8
#define ACCEPTS	   4		/* in one step of the session */
#define SILENCE_NS 300000000ull /* how long a connection may be silent; the client tries again */
#define TIMEOUT_MS 60000	/* how long an answer may take: others may be served before */

#define NAMES_MAX 64 /* sockets whose name claims that they are the session's */
#define LETTERS	  16

struct client {
	int fd; /* -1: free */
	uint64_t since;
	struct ip_control_peer peer;
};

struct ip_control {
	int fd;
	struct client clients[CLIENTS];
	char packet[sizeof(struct ip_control_request) + IP_CONTROL_TEXT_MAX + 1];
	char text[IP_CONTROL_TEXT_MAX];
};

/* Makes the name, without the zero byte that it begins with. */
static int name_of(const struct ip_area *area, char *ret, size_t size)
{
	struct stat st;

	if (fstat(area->fd, &st) < 0)
		return ip_error_errno("cannot look at the ring memory");
	snprintf(ret, size, "iprobe-session-%lx-%lx", (unsigned long)st.st_dev,
		 (unsigned long)st.st_ino);
	return 0;
}

static socklen_t address_of(const char *name, struct sockaddr_un *ret)
{
	int n;

	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1, "%s", name);
	return offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

/* Binds the socket to the name. A process that has taken the name cannot keep us from listening:
 * then we append letters that cannot be guessed. */
static int bind_name(int fd, char *name, size_t length)
{
	struct sockaddr_un address;
	socklen_t size = address_of(name, &address);
	uint64_t word;

	for (int i = 0; bind(fd, (struct sockaddr *)&address, size) < 0; i++) {
		if (errno != EADDRINUSE || i == 3 ||
		    getrandom(&word, sizeof(word), 0) != sizeof(word))
			return -1;
		sprintf(name + length, "-%0*lx", LETTERS, word);
		size = address_of(name, &address);
	}
	return 0;
}

int ip_control_create(const struct ip_area *area, struct ip_control **ret)
{
	char name[96];
	struct ip_control *c;

	if (name_of(area, name, sizeof(name) - LETTERS - 1) < 0)
		return -1;
	c = calloc(1, sizeof(*c));
	if (!c)
		return ip_error("out of memory");
	for (unsigned i = 0; i < CLIENTS; i++)
		c->clients[i].fd = -1;
	c->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || ip_control_peer_watch(c->fd) < 0 ||
	    bind_name(c->fd, name, strlen(name)) < 0 || listen(c->fd, 64) < 0) {
		ip_error_errno("cannot listen for changes of the session");
		ip_control_destroy(c);
		return -1;
	}
	*ret = c;
	return 0;
}

static void drop(struct client *client)
{
	close(client->fd);
	client->fd = -1;
	ip_control_peer_clear(&client->peer);
}

void ip_control_destroy(struct ip_control *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < CLIENTS; i++)
		if (c->clients[i].fd >= 0)
			drop(&c->clients[i]);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

int ip_control_fd(const struct ip_control *c)
{
	return c ? c->fd : -1;
}

/* Sends a packet of two parts; either all of it, or nothing. */
static ssize_t send_packet(int fd, const void *head, size_t head_size, const void *text,
			   size_t text_size)
{
	struct iovec parts[2] = {{(void *)head, head_size}, {(void *)text, text_size}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void refuse(struct client *client, const char *why)
{
	const struct ip_control_reply reply = {
		.magic = IP_CONTROL_MAGIC, .failed = 1, .iprobe_pid = getpid()};

	send_packet(client->fd, &reply, sizeof(reply), why, strlen(why));
	drop(client);
}

static void accept_some(struct ip_control *c)
{
	for (unsigned i = 0, n = 0; i < CLIENTS && n < ACCEPTS; i++) {
		struct client *client = &c->clients[i];

		if (client->fd >= 0)
			continue;
		client->fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client->fd < 0)
			return;
		n++;
		client->since = ip_now_ns();
		if (ip_control_peer_hold(client->fd, &client->peer) < 0)
			drop(client);
	}
}

const char *ip_control_parse(const void *packet, size_t size, struct ip_control_request *ret,
			     char **ret_selection)
{
	const char *text = (const char *)packet + sizeof(*ret);

	if (size < sizeof(*ret))
		return "the request is too short";
	memcpy(ret, packet, sizeof(*ret));
	size -= sizeof(*ret);
	if (ret->magic != IP_CONTROL_MAGIC || (ret->flags & ~IP_CONTROL_FLAGS) || ret->reserved)
		return "the request is of another version of iprobe";
	if (size > IP_CONTROL_TEXT_MAX)
		return "the selection is too long";
	/* The client reads files of selections itself: the session has another working directory,
	 * and perhaps other rights. */
	if (memchr(text, '\0', size) || (size && text[0] == '@'))
		return "the request is damaged";
	if (!ret->max_stop_ns)
		return "the request gives no time";
	*ret_selection = strndup(text, size);
	return *ret_selection ? NULL : "out of memory";
}

/* Whether the client has closed its end: then it does not want the change any more. */
static bool has_gone(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Whether a descriptor is what comes with such a request. Only memory has seals. */
static bool is_fit(const struct ip_control_request *request, int fd)
{
	struct stat st;

	if (request->flags & IP_CONTROL_DESCRIBE)
		return fcntl(fd, F_GET_SEALS) >= 0;
	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

/* 1: a request was served; 0: none was. */
static int read_client(struct ip_control *c, struct client *client, ip_control_serve serve,
		       void *context)
{
	struct ip_control_reply reply = {.magic = IP_CONTROL_MAGIC, .iprobe_pid = getpid()};
	struct ip_control_request request;
	_cleanup_free_ char *selection = NULL;
	_cleanup_close_ int directory = -1;
	size_t text_size = 0;
	const char *why;
	ssize_t n = ip_control_peer_receive(client->fd, &client->peer, c->packet, sizeof(c->packet),
					    MSG_DONTWAIT, &directory);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (ip_now_ns() - client->since > SILENCE_NS)
			drop(client);
		return 0;
	}
	if (n <= 0) {
		drop(client);
		return 0;
	}
	why = ip_control_peer_may_ask(&client->peer);
	if (!why)
		why = ip_control_parse(c->packet, n, &request, &selection);
	if (!why && directory >= 0 && !is_fit(&request, directory))
		why = "the request is damaged";
	if (why) {
		refuse(client, why);
		return 0;
	}
	if (has_gone(client->fd)) {
		drop(client);
		return 0;
	}
	serve(context, &request, selection, directory, &reply, c->text, &text_size);
	send_packet(client->fd, &reply, sizeof(reply), c->text, text_size);
	drop(client);
	return 1;
}

void ip_control_poll(struct ip_control *c, ip_control_serve serve, void *context)
{
	if (!c)
		return;
	accept_some(c);
	for (unsigned i = 0; i < CLIENTS; i++)
		if (c->clients[i].fd >= 0 && read_client(c, &c->clients[i], serve, context))
			return;
}

static int read_reply(int fd, const struct ip_control_peer *peer, pid_t pid,
		      struct ip_control_reply *ret, char **ret_text, size_t *ret_text_size)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	_cleanup_free_ char *packet = malloc(sizeof(*ret) + IP_CONTROL_TEXT_MAX);
	ssize_t n;
	char *text;
	int ready, reset = 0;

	if (!packet)
		return ip_error("out of memory");
	do {
		ready = poll(&p, 1, TIMEOUT_MS);
	} while (ready < 0 && errno == EINTR && !ip_interrupted);
	if (ready < 0)
		return ip_error(
			"pid %d: interrupted while its session was at it: it may be changed yet",
			pid);
	if (ready == 0)
		return ip_error(
			"pid %d: the iprobe that records it does not answer: is it stopped?", pid);
	/* The session may have closed the connection without reading our request. The kernel
	 * reports that first (ECONNRESET); the answer is there all the same. */
	do {
		n = ip_control_peer_receive(fd, peer, packet, sizeof(*ret) + IP_CONTROL_TEXT_MAX,
					    MSG_DONTWAIT, NULL);
	} while (n < 0 && errno == ECONNRESET && !reset++);
	if (n < 0 && errno == EACCES)
		return ip_error("pid %d: another process answers in the place of its session (pid "
				"%d): it is not believed",
				pid, peer->pid);
	if (n < (ssize_t)sizeof(*ret))
		return ip_error("pid %d: its session ended before it answered", pid);
	memcpy(ret, packet, sizeof(*ret));
	if (ret->magic != IP_CONTROL_MAGIC || ret->nstops > IP_CONTROL_STOPS)
		return ip_error("pid %d: its session is of another version of iprobe", pid);
	n -= sizeof(*ret);
	text = calloc(1, n + 2); /* at least two strings */
	if (!text)
		return ip_error("out of memory");
	memcpy(text, packet + sizeof(*ret), n);
	*ret_text = text;
	*ret_text_size = n;
	if (!ret->failed)
		return 0;
	ip_error("%s", *text ? text : "the session could not do it");
	free(text);
	*ret_text = NULL;
	return -1;
}

/* Root may ask the session of another user. What that session answers is the word of that user. */
static void tell_whose(const struct ip_control_peer *peer, pid_t pid)
{
	static pid_t told;

	if (peer->uid == 0 || peer->uid == geteuid() || peer->pid == told)
		return;
	told = peer->pid;
	ip_notice("pid %d: its session is that of user %u (iprobe pid %d): what is told of it is "
		  "that user's word",
		  pid, peer->uid, peer->pid);
}

/* Whether the session has answered already. A client that is refused because of its user or program
 * is answered, and its connection is closed, perhaps before it has sent its request. */
static bool has_answered(int fd)
{
	char byte;
	ssize_t n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == ECONNRESET) /* reported first, see read_reply() */
		n = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n > 0;
}

/* Returns the next name in the kernel's list of sockets that begins with wanted, or NULL. */
static const char *next_name(FILE *list, const char *wanted, char *line, size_t size)
{
	size_t length = strlen(wanted);

	while (fgets(line, size, list)) {
		char *name = strstr(line, " @");

		if (!name || strncmp(name + 2, wanted, length) ||
		    (name[2 + length] != '\n' && name[2 + length] != '-'))
			continue;
		name[strcspn(name, "\n")] = '\0';
		return name + 2;
	}
	return NULL;
}

/* Connects to one name. 0; 1: no process listens; -1 with an error: the process that listens must
 * not be trusted. */
static int try_name(const char *name, const struct ip_area *area, pid_t pid, int *ret,
		    struct ip_control_peer *peer)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t size = address_of(name, &address);
	const char *why;

	if (fd < 0 || ip_control_peer_watch(fd) < 0)
		return ip_error_errno("cannot make a socket");
	if (connect(fd, (struct sockaddr *)&address, size) < 0)
		return errno == ECONNREFUSED || errno == EAGAIN || errno == ENOENT ||
				       errno == EPROTOTYPE
			       ? 1
			       : ip_error_errno("pid %d: cannot reach its session", pid);
	if (ip_control_peer_hold(fd, peer) < 0)
		return -1;
	why = ip_control_peer_is_session(peer, area, pid);
	if (why) {
		ip_error("pid %d: a process (pid %d, user %u) listens in the place of its session "
			 "and is not believed: %s",
			 pid, peer->pid, peer->uid, why);
		ip_control_peer_clear(peer);
		return -1;
	}
	*ret = ip_steal_fd(&fd);
	return 0;
}

/* Does the same for all names. The first name is tried even if there is no list. */
static int find_session(const struct ip_area *area, pid_t pid, int *ret,
			struct ip_control_peer *peer)
{
	_cleanup_fclose_ FILE *list = NULL;
	char wanted[64], line[256];
	const char *name;
	int done, found;

	if (name_of(area, wanted, sizeof(wanted)) < 0)
		return -1;
	done = try_name(wanted, area, pid, ret, peer);
	list = done ? fopen("/proc/net/unix", "re") : NULL;
	for (unsigned i = 0; list && done && i < NAMES_MAX &&
			     (name = next_name(list, wanted, line, sizeof(line)));) {
		if (strlen(name) != strlen(wanted) + 1 + LETTERS)
			continue;
		i++;
		found = try_name(name, area, pid, ret, peer);
		done = found <= 0 ? found : done;
	}
	return done;
}

void ip_control_wake(const struct ip_area *area, pid_t pid)
{
	_cleanup_free_ char *error = strdup(ip_error_message());
	struct ip_control_peer peer;
	_cleanup_close_ int fd = -1;

	/* a connection without a request */
	if (find_session(area, pid, &fd, &peer) == 0)
		ip_control_peer_clear(&peer);
	ip_error("%s", error ? error : "");
}

/* Asks the session at the other end of the socket. */
static int ask_peer(int fd, const struct ip_control_peer *peer, pid_t pid,
		    const struct ip_control_request *request, const char *selection, int directory,
		    struct ip_control_reply *ret, char **ret_text, size_t *ret_text_size)
{
	if (ip_send_with_fds(fd, request, sizeof(*request), selection, strlen(selection),
			     &directory, directory >= 0, MSG_DONTWAIT) < 0) {
		if (errno != EPIPE && errno != ECONNRESET)
			return ip_error_errno("pid %d: cannot ask its session", pid);
		if (!has_answered(fd))
			return 1;
	}
	return read_reply(fd, peer, pid, ret, ret_text, ret_text_size);
}

int ip_control_ask(const struct ip_area *area, pid_t pid, pid_t by,
		   const struct ip_control_request *request, const char *selection, int directory,
		   struct ip_control_reply *ret, char **ret_text, size_t *ret_text_size)
{
	struct ip_control_peer peer;
	_cleanup_close_ int fd = -1;
	int done;

	if (strlen(selection) > IP_CONTROL_TEXT_MAX)
		return ip_error(
			"the selection is too long to change a session with: %u bytes at most",
			IP_CONTROL_TEXT_MAX);
	done = find_session(area, pid, &fd, &peer);
	if (done)
		return done;
	if (by && peer.pid != by)
		done = ip_error("pid %d: its session is that of iprobe pid %d by now, which is not "
				"changed",
				pid, peer.pid);
	else
		done = ask_peer(fd, &peer, pid, request, selection, directory, ret, ret_text,
				ret_text_size);
	if (!done) {
		ret->iprobe_pid = peer.pid;
		tell_whose(&peer, pid);
	}
	ip_control_peer_clear(&peer);
	return done;
}
