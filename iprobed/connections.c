/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobed's connections: accepting, counting, and their receivers (receiver.h).
 *
 * One receiver always waits for the next connection, so that no connection lacks one because a fork
 * fails. A user's connections are counted until their receivers are gone: a receiver that hangs in
 * closing what its client has sent still counts for that user. Connections beyond the limit are
 * rejected (rejected.c).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "access/protocol.h"
#include "common/error.h"
#include "common/now.h"
#include "iprobed/daemon_private.h"

/* Time for a receiver to become ready, and to end after the last message. */
#define START_NS  10000000000ull
#define READ_SIZE (16u << 10)

enum stage {
	STARTING,
	SPARE,
	TAKEN,
	OVER, /* nothing is read or sent any more */
};

struct ip_iprobed_connection {
	struct ip_receiver receiver;
	enum stage stage;
	uint64_t since; /* when the stage began */
	uid_t uid;
	struct ip_peer who; /* valid until the request */
	char *refusal;	    /* why it will be refused; NULL: the request will be considered */
	struct ip_iprobed_session *session;
	bool asked;
	char *text; /* what the receiver has sent, in parts */
	size_t have, room;
};

static void set_stage(struct ip_iprobed_connection *c, enum stage stage)
{
	c->stage = stage;
	c->since = ip_now_ns();
}

static int start_spare(struct ip_iprobed *d)
{
	struct ip_iprobed_connection *c = calloc(1, sizeof(*c));
	void *grown = c ? reallocarray(d->connections, d->nconnections + 1, sizeof(*d->connections))
			: NULL;

	if (grown)
		d->connections = grown;
	if (!grown || ip_receiver_start(&c->receiver) < 0) {
		free(c);
		return grown ? -1 : ip_error("out of memory");
	}
	c->who.pidfd = -1;
	c->uid = (uid_t)-1;
	set_stage(c, STARTING);
	d->connections[d->nconnections++] = c;
	return 0;
}

static struct ip_iprobed_connection *find_spare(const struct ip_iprobed *d, enum stage stage)
{
	for (size_t i = 0; i < d->nconnections; i++)
		if (d->connections[i]->stage == stage)
			return d->connections[i];
	return NULL;
}

bool ip_iprobed_can_accept(const struct ip_iprobed *d)
{
	return find_spare(d, SPARE) && !ip_iprobed_turned_away_full(d);
}

/* Ends the connection: its receiver ends, and closes what it holds. */
static void finish(struct ip_iprobed_connection *c)
{
	if (c->stage == OVER)
		return;
	set_stage(c, OVER);
	close(c->receiver.to);
	close(c->receiver.from);
	c->receiver.to = c->receiver.from = -1;
	free(c->text);
	c->text = NULL;
	c->have = c->room = 0;
}

static const char *check_limits(const struct ip_iprobed *d, uid_t uid)
{
	size_t same = 0;

	for (size_t i = 0; i < d->nconnections; i++)
		same += (d->connections[i]->stage == TAKEN || d->connections[i]->stage == OVER) &&
			d->connections[i]->uid == uid;
	/* A session has a connection as long as its client is there, and another client may connect
	 * to detach. */
	if (same >= 2 * (size_t)d->options->sessions_per_user ||
	    d->nconnections > 2 * (size_t)d->options->sessions)
		return "too many connections: try again when some have ended";
	return NULL;
}

void ip_iprobed_accept(struct ip_iprobed *d)
{
	struct ip_iprobed_connection *c = find_spare(d, SPARE);
	struct ucred peer;
	socklen_t size = sizeof(peer);
	const char *why = NULL;
	int fd = c ? accept4(d->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		why = "cannot see the client's credentials (SO_PEERCRED)";
	if (!why)
		why = check_limits(d, peer.uid);
	if (why || ip_receiver_command(&c->receiver, IP_RECEIVER_CONNECTION, fd, NULL) < 0) {
		ip_iprobed_turn_away(d, fd,
				     why ? why : "iprobed cannot take the connection: try again");
		if (!why) {
			kill(c->receiver.pid, SIGKILL);
			finish(c);
		}
		return;
	}
	c->uid = peer.uid;
	set_stage(c, TAKEN);
	if (geteuid() && peer.uid != geteuid())
		ip_error("this iprobed runs as uid %u: it serves that user alone", geteuid());
	else
		ip_credentials_of_peer(fd, &c->who);
	if (c->who.pidfd < 0)
		c->refusal = strdup(ip_error_message());
	/* This is not the last open descriptor: the receiver has not used its own yet. */
	close(fd);
	ip_receiver_command(&c->receiver, IP_RECEIVER_GO, -1, NULL);
	start_spare(d); /* if this fails it is tried again */
}

void ip_iprobed_say(struct ip_iprobed_connection *c, bool last, const char *word, const char *what)
{
	char text[IP_RECEIVER_TEXT_MAX - 1];

	if (!c || c->stage != TAKEN)
		return;
	snprintf(text, sizeof(text), "%s %s\n", word, what);
	ip_receiver_command(&c->receiver, last ? IP_RECEIVER_LAST_WORD : IP_RECEIVER_SAY, -1, text);
	if (last) {
		if (c->session)
			c->session->connection = NULL;
		c->session = NULL;
		finish(c);
	}
}

void ip_iprobed_bind(struct ip_iprobed_connection *c, struct ip_iprobed_session *s)
{
	c->session = s;
	if (s)
		s->connection = c;
}

int ip_iprobed_hand_on(struct ip_iprobed_connection *c, int worker)
{
	return ip_receiver_command(&c->receiver, IP_RECEIVER_WORKER, worker, NULL);
}

int ip_iprobed_hand_over(struct ip_iprobed_connection *c, int events)
{
	return ip_receiver_command(&c->receiver, IP_RECEIVER_EVENTS, events, NULL);
}

int ip_iprobed_who(struct ip_iprobed_connection *c, struct ip_peer *ret)
{
	if (c->refusal || c->who.pidfd < 0)
		return ip_error("%s", c->refusal ? c->refusal : "out of memory");
	*ret = c->who;
	c->who = (struct ip_peer){.pidfd = -1};
	return 0;
}

/* The client has closed the connection. */
static void gone(struct ip_iprobed_connection *c)
{
	struct ip_iprobed_session *s = c->session;

	c->session = NULL;
	finish(c);
	if (s) {
		s->connection = NULL;
		if (!s->request.leave)
			ip_iprobed_end_session(s);
	}
}

/* Handles one message of the receiver. The receiver may have been taken over by an attacker: it can
 * only do harm to its own connection. */
static void take_word(struct ip_iprobed *d, struct ip_iprobed_connection *c,
		      const struct ip_receiver_header *head, const char *text)
{
	if (head->what == IP_RECEIVER_READY && c->stage == STARTING) {
		set_stage(c, SPARE);
	} else if (head->what == IP_RECEIVER_REQUEST && c->stage == TAKEN && !c->asked) {
		c->asked = true;
		ip_iprobed_request(d, c, text, head->size);
	} else if (head->what == IP_RECEIVER_STOP && c->session) {
		ip_iprobed_end_session(c->session);
	} else if (head->what == IP_RECEIVER_GONE) {
		gone(c);
	}
}

static int make_room(struct ip_iprobed_connection *c)
{
	char *grown;

	if (c->room - c->have >= READ_SIZE)
		return 0;
	grown = realloc(c->text, c->have + READ_SIZE);
	if (!grown)
		return -1;
	c->text = grown;
	c->room = c->have + READ_SIZE;
	return 0;
}

static void take_words(struct ip_iprobed *d, struct ip_iprobed_connection *c)
{
	while (c->stage != OVER && c->have >= sizeof(struct ip_receiver_header)) {
		struct ip_receiver_header head;
		size_t size;
		char *text;

		memcpy(&head, c->text, sizeof(head));
		if (head.size > IP_REQUEST_SIZE_MAX) {
			/* iprobed's own receiver would not send this */
			kill(c->receiver.pid, SIGKILL);
			gone(c);
			return;
		}
		size = sizeof(head) + head.size;
		if (c->have < size)
			return;
		/* What the message causes may end the connection, and free its text. */
		text = c->text;
		c->text = NULL;
		take_word(d, c, &head, text + sizeof(head));
		if (c->stage == OVER) {
			free(text);
			return;
		}
		memmove(text, text + size, c->have - size);
		c->text = text;
		c->have -= size;
	}
	if (!c->have) {
		free(c->text);
		c->text = NULL;
		c->room = 0;
	}
}

static void read_words(struct ip_iprobed *d, struct ip_iprobed_connection *c)
{
	ssize_t n;

	if (c->stage == OVER)
		return;
	n = make_room(c) < 0 ? 0 : read(c->receiver.from, c->text + c->have, c->room - c->have);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		gone(c);
		return;
	}
	c->have += n;
	take_words(d, c);
}

size_t ip_iprobed_poll_connections(const struct ip_iprobed *d, struct pollfd *polled)
{
	for (size_t i = 0; i < d->nconnections; i++)
		polled[i] =
			(struct pollfd){.fd = d->connections[i]->receiver.from, .events = POLLIN};
	return d->nconnections;
}

void ip_iprobed_serve_connections(struct ip_iprobed *d, const struct pollfd *polled, size_t n)
{
	/* New connections come after these. None is removed here, but only in
	 * ip_iprobed_reap_connection(). */
	for (size_t i = 0; i < n; i++)
		if (polled[i].revents && polled[i].fd == d->connections[i]->receiver.from)
			read_words(d, d->connections[i]);
}

void ip_iprobed_check_connections(struct ip_iprobed *d)
{
	uint64_t now = ip_now_ns();

	for (size_t i = 0; i < d->nconnections; i++) {
		struct ip_iprobed_connection *c = d->connections[i];
		bool late =
			c->stage == SPARE ? false
			: c->stage == TAKEN
				? !c->asked && now - c->since > IP_RECEIVER_SILENCE_NS + START_NS
				: now - c->since > START_NS;

		if (!late)
			continue;
		/* the process has not been reaped, so the pid is its own */
		kill(c->receiver.pid, SIGKILL);
		gone(c);
	}
	if (!d->ending && !find_spare(d, SPARE) && !find_spare(d, STARTING))
		start_spare(d);
}

bool ip_iprobed_reap_connection(struct ip_iprobed *d, pid_t pid)
{
	for (size_t i = 0; i < d->nconnections; i++) {
		struct ip_iprobed_connection *c = d->connections[i];

		if (c->receiver.pid != pid)
			continue;
		gone(c);
		ip_peer_clear(&c->who);
		free(c->refusal);
		free(c);
		d->connections[i] = d->connections[--d->nconnections];
		return true;
	}
	return false;
}

void ip_iprobed_end_connections(struct ip_iprobed *d)
{
	const struct timespec nap = {.tv_nsec = 10000000};

	for (size_t i = 0; i < d->nconnections; i++)
		/* the receiver ends because of this, after its last message */
		finish(d->connections[i]);
	for (int tries = 0; d->nconnections && tries < 100; tries++) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			ip_iprobed_reap_connection(d, pid);
		if (d->nconnections)
			nanosleep(&nap, NULL);
	}
	/* the receiver hangs; this blocks no other process */
	while (d->nconnections)
		ip_iprobed_reap_connection(d, d->connections[0]->receiver.pid);
	free(d->connections);
	d->connections = NULL;
}
