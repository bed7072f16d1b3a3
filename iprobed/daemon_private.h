/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of iprobed, only for the sources of this directory.
 */
#ifndef IP_DAEMON_PRIVATE_H
#define IP_DAEMON_PRIVATE_H

#include <stdint.h>

#include "iprobed/daemon.h"
#include "iprobed/receiver.h"
#include "iprobed/socket_file.h"
#include "iprobed/worker.h"

struct pollfd;
struct ip_iprobed_connection;

struct ip_iprobed_session {
	unsigned number;
	/* the connection that waits for an answer; NULL: none */
	struct ip_iprobed_connection *connection;
	pid_t worker, reader; /* reader: of events of the kernel, if there is one */
	int target;	      /* pidfd */
	struct ip_peer who;
	struct ip_request request;
	bool in_group;		      /* of members: they may what the policy lists */
	bool member;		      /* the process is one that it lists */
	struct ip_policy_entry entry; /* for a member; a copy */
	uint64_t kernel_buffer;	      /* for events of the kernel, of each CPU; 0: none */
	char no_events[256];	      /* why none are given, which were optional; "": see above */
	bool cleaning;		      /* the worker restores what another worker left */
	/* output of a worker that has no client (any more), or of a reader without a worker */
	struct ip_worker_log *words;
	int report;	   /* a pipe from the worker (worker.h); -1: it has ended */
	char failure[300]; /* what kept the worker from starting; "": nothing */
	uint64_t since;
};

/* A process that reads events of the kernel for a session, which may have ended before it. */
struct ip_iprobed_reader {
	pid_t pid;
	uid_t uid;	 /* of who has asked for the session */
	uint64_t buffer; /* kernel_buffer of it */
};

struct ip_iprobed {
	const struct ip_iprobed_options *options;
	int program, fperf, listening, state; /* fperf: -1 if it is not installed */
	struct ip_iprobed_socket_file socket_file;
	pid_t rules; /* the process that carries out rules; 0: there is none */
	uint64_t rules_since;
	struct ip_iprobed_session **sessions;
	size_t nsessions;
	struct ip_iprobed_connection **connections;
	size_t nconnections;
	int *turned_away; /* rejected connections that wait to be closed */
	size_t nturned_away, turned_away_max;
	pid_t *closing; /* processes that close them */
	size_t nclosing;
	struct ip_iprobed_reader *readers; /* of events of the kernel */
	size_t nreaders;
	struct pollfd *polled;
	unsigned last_number;
	bool ending;
};

/* Writes one line to standard error: when, who, what. */
void ip_iprobed_log(const struct ip_iprobed_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Memory (memory.c). Returns how much memory there is. groups: a list of control groups like
 * /proc/self/cgroup. top: where they are mounted. meminfo: a file like /proc/meminfo. UINT64_MAX:
 * not known. */
uint64_t ip_iprobed_memory_there(const char *groups, const char *top, const char *meminfo);
/* What the kernel's buffers take of events of the kernel. buffer: of each CPU and kind. */
uint64_t ip_iprobed_kernel_memory(uint64_t buffer);
/* Checks whether there is enough memory for one more session. Returns 0, or -1 with an error. */
#define IP_IPROBED_BESIDE (32ull << 20)
int ip_iprobed_check_memory(const struct ip_iprobed *d, const struct ip_iprobed_session *s);

/* The output of a worker, for the log (worker_log.c). It is split at newlines. Only printable
 * characters remain, and its length is limited: most: lines of one worker. */
#define IP_WORKER_LOG_LINES 32u
struct ip_worker_log *ip_worker_log_new(unsigned most, int *ret_for_worker);
int ip_worker_log_fd(const struct ip_worker_log *w);
void ip_worker_log_read(struct ip_iprobed_session *s);
void ip_worker_log_free(struct ip_worker_log *w);

/* What the worker of a session reports (worker_report.c). The first function gives the worker's end
 * of a new pipe, and returns 0 or -1 with an error. The second takes what has come, without
 * waiting. */
int ip_worker_report_open(struct ip_iprobed_session *s, int *ret_for_worker);
void ip_worker_report_read(struct ip_iprobed_session *s);

/* Connections (connections.c). ip_iprobed_can_accept() returns whether one can be accepted;
 * ip_iprobed_accept() accepts it. */
bool ip_iprobed_can_accept(const struct ip_iprobed *d);
void ip_iprobed_accept(struct ip_iprobed *d);
/* The first function fills in polled, with d->nconnections entries, and returns their number. The
 * second serves these connections after poll(). */
size_t ip_iprobed_poll_connections(const struct ip_iprobed *d, struct pollfd *polled);
void ip_iprobed_serve_connections(struct ip_iprobed *d, const struct pollfd *polled, size_t n);
/* To be called at intervals: ends connections that take too long, and starts the process for the
 * next one. */
void ip_iprobed_check_connections(struct ip_iprobed *d);
/* Returns whether the process that has ended was the receiver of a connection. */
bool ip_iprobed_reap_connection(struct ip_iprobed *d, pid_t pid);
void ip_iprobed_end_connections(struct ip_iprobed *d);
/* Returns the user at the connection. It works once: *ret then belongs to the caller. Returns 0, or
 * -1 with an error: why the user is refused. */
int ip_iprobed_who(struct ip_iprobed_connection *c, struct ip_peer *ret);
/* Assigns the session to the connection. NULL: the connection has none any more. */
void ip_iprobed_bind(struct ip_iprobed_connection *c, struct ip_iprobed_session *s);
/* Has the receiver send the client's descriptors to that socket. Returns 0 or -1. */
int ip_iprobed_hand_on(struct ip_iprobed_connection *c, int worker);
/* Has it send that end of the reader's socket to the client. Returns 0 or -1. */
int ip_iprobed_hand_over(struct ip_iprobed_connection *c, int events);
/* Sends a message to the client, if there is one. last: it is the last message, and the connection
 * ends. */
void ip_iprobed_say(struct ip_iprobed_connection *c, bool last, const char *word, const char *what);

/* Connections that are rejected (rejected.c). fd no longer belongs to the caller. */
int ip_iprobed_turned_away_init(struct ip_iprobed *d);
void ip_iprobed_turn_away(struct ip_iprobed *d, int fd, const char *why);
bool ip_iprobed_turned_away_full(const struct ip_iprobed *d);
/* Has them closed by another process, if there are enough of them, or if all is set. */
void ip_iprobed_close_turned_away(struct ip_iprobed *d, bool all);
bool ip_iprobed_reap_closing(struct ip_iprobed *d, pid_t pid);

/* What connections ask for (daemon.c). */
void ip_iprobed_request(struct ip_iprobed *d, struct ip_iprobed_connection *c, const char *text,
			size_t size);
void ip_iprobed_end_session(struct ip_iprobed_session *s);

/* Decides about the request of s->who, and fills in target, member and entry. Returns 0, or -1 with
 * the reason. */
int ip_iprobed_decide(const struct ip_iprobed *d, struct ip_iprobed_session *s);
void ip_iprobed_clear_entry(struct ip_policy_entry *entry);

/* Decides whether the user may have events of the kernel, if the request asks for them, and fills
 * in kernel_buffer; where they are optional, or no_events. Returns 0, or -1 with the reason. */
int ip_iprobed_decide_kernel(const struct ip_iprobed *d, struct ip_iprobed_session *s);

/* The process that reads events of the kernel for a session (reader_process.c). Starts it; *ret:
 * the worker's end of the socket. Returns 0, or -1 with an error. */
int ip_iprobed_reader_start(struct ip_iprobed *d, struct ip_iprobed_session *s, int *ret);
/* Returns whether the process that has ended was one. What one that was killed has left is
 * removed. */
bool ip_iprobed_reap_reader(struct ip_iprobed *d, pid_t pid, int status);
/* Removes what readers of an iprobed before this one have left. */
void ip_iprobed_reader_clean(void);

/* Notes of sessions (recovery.c), one for each target, user and kind. */
int ip_iprobed_note(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
/* The sites that were live have been restored. ip_iprobed_forget() removes the note of the session,
 * ip_iprobed_forget_all() those of all users for the target. */
void ip_iprobed_forget(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
void ip_iprobed_forget_all(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
/* Handles what an earlier iprobed has left. Calls clean for each target that still lives (target
 * not 0: only for that one). The session is in the name of one user: of the users that are noted,
 * and have no session now, it is the one with most rights. */
void ip_iprobed_left_over(struct ip_iprobed *d, pid_t target,
			  void (*clean)(struct ip_iprobed *d, struct ip_iprobed_session *s));

#endif
