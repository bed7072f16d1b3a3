/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of iprobed, for iprobed*.c alone.
 */
#ifndef IP_DAEMON_PRIVATE_H
#define IP_DAEMON_PRIVATE_H

#include <stdint.h>

#include "iprobed/daemon.h"
#include "iprobed/receiver.h"
#include "iprobed/worker.h"

struct pollfd;
struct ip_iprobed_connection;

struct ip_iprobed_session {
	unsigned number;
	struct ip_iprobed_connection *connection; /* who waits for an answer; NULL: nobody */
	pid_t worker;
	int target; /* pidfd */
	struct ip_peer who;
	struct ip_request request;
	bool member;
	struct ip_policy_entry entry;	/* of a member; a copy */
	bool cleaning;			/* the worker puts back what another left */
	struct ip_iprobed_words *words; /* what such a one says */
	uint64_t since;
};

struct ip_iprobed {
	const struct ip_iprobed_options *options;
	int program, fperf, listening, state; /* fperf: -1 where it is not there */
	pid_t rules; /* the process that carries them out; 0: there is none */
	uint64_t rules_since;
	struct ip_iprobed_session **sessions;
	size_t nsessions;
	struct ip_iprobed_connection **connections;
	size_t nconnections;
	int *turned_away; /* connections that wait for being closed */
	size_t nturned_away, turned_away_max;
	pid_t *closing; /* processes that close them */
	size_t nclosing;
	struct pollfd *polled;
	unsigned last_number;
	bool ending;
};

/* One line to standard error: when, who, what. */
void ip_iprobed_log(const struct ip_iprobed_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Memory (memory.c). What there is: by a list of control groups as /proc/self/cgroup, where they
 * are mounted, and a file as /proc/meminfo. UINT64_MAX: not known. */
uint64_t ip_iprobed_memory_there(const char *groups, const char *top, const char *meminfo);
/* Whether there is enough for one session more. 0, or -1 with an error. */
#define IP_IPROBED_BESIDE (32ull << 20)
int ip_iprobed_check_memory(const struct ip_iprobed *d, const struct ip_iprobed_session *s);

/* Words of a worker for the log: what stands between newlines, in characters that do nothing, and
 * not without end. */
struct ip_iprobed_words *ip_iprobed_words_new(int *ret_for_worker);
int ip_iprobed_words_fd(const struct ip_iprobed_words *w);
void ip_iprobed_words_read(struct ip_iprobed_session *s);
void ip_iprobed_words_free(struct ip_iprobed_words *w);

/* Connections (connections.c). Accepts one, when it can be accepted. */
bool ip_iprobed_can_accept(const struct ip_iprobed *d);
void ip_iprobed_accept(struct ip_iprobed *d);
/* Fills in polled, of d->nconnections; returns how many. Serves those, with what poll() said. */
size_t ip_iprobed_poll_connections(const struct ip_iprobed *d, struct pollfd *polled);
void ip_iprobed_serve_connections(struct ip_iprobed *d, const struct pollfd *polled, size_t n);
/* Now and then: ends those that take too long, and starts what shall take the next one. */
void ip_iprobed_check_connections(struct ip_iprobed *d);
/* Whether the process that has ended was one at a connection. */
bool ip_iprobed_reap_connection(struct ip_iprobed *d, pid_t pid);
void ip_iprobed_end_connections(struct ip_iprobed *d);
/* Who asks, once; the caller's then. 0, or -1 with an error: why he is refused. */
int ip_iprobed_who(struct ip_iprobed_connection *c, struct ip_peer *ret);
/* The session is the connection's; NULL: none is any more. */
void ip_iprobed_bind(struct ip_iprobed_connection *c, struct ip_iprobed_session *s);
/* Has the client's descriptors sent to that socket. 0 or -1. */
int ip_iprobed_hand_on(struct ip_iprobed_connection *c, int worker);
/* Tells the client, if there is one. last: nothing comes behind it, and the connection is gone. */
void ip_iprobed_say(struct ip_iprobed_connection *c, bool last, const char *word, const char *what);

/* Connections that nobody has time for (rejected.c). fd is no longer the caller's. */
int ip_iprobed_turned_away_init(struct ip_iprobed *d);
void ip_iprobed_turn_away(struct ip_iprobed *d, int fd, const char *why);
bool ip_iprobed_turned_away_full(const struct ip_iprobed *d);
/* Has them closed by another process, if there are enough, or all. */
void ip_iprobed_close_turned_away(struct ip_iprobed *d, bool all);
bool ip_iprobed_reap_closing(struct ip_iprobed *d, pid_t pid);

/* What connections ask for (iprobed.c). */
void ip_iprobed_request(struct ip_iprobed *d, struct ip_iprobed_connection *c, const char *text,
			size_t size);
void ip_iprobed_end_session(struct ip_iprobed_session *s);

/* Decides about what s->who asks, and fills in target, member and entry. 0, or -1 with the
 * reason. */
int ip_iprobed_decide(const struct ip_iprobed *d, struct ip_iprobed_session *s);
void ip_iprobed_clear_entry(struct ip_policy_entry *entry);

/* Notes of sessions, one for each target, user and kind. */
int ip_iprobed_note(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
/* What is live has been put back: of the one session, or whoever's. */
void ip_iprobed_forget(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
void ip_iprobed_forget_all(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
/* What an earlier iprobed has left: calls clean for each target that still lives (target: for
 * that one), in the name of the one of most rights of those who are noted and for whom no
 * session is there now. */
void ip_iprobed_left_over(struct ip_iprobed *d, pid_t target,
			  void (*clean)(struct ip_iprobed *d, struct ip_iprobed_session *s));

#endif
