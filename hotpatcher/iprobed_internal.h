/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of iprobed, for iprobed*.c alone.
 */
#ifndef IP_IPROBED_INTERNAL_H
#define IP_IPROBED_INTERNAL_H

#include <stdint.h>
#include <sys/un.h>

#include "hotpatcher/iprobed.h"
#include "hotpatcher/worker.h"

struct ip_iprobed_session {
	unsigned number;
	uint32_t connection; /* id; 0: none is waiting for an answer */
	int socket;	     /* the connection itself, -1 likewise */
	pid_t worker;
	int target; /* pidfd */
	struct ip_peer who;
	struct ip_request request;
	bool member;
	struct ip_policy_entry entry; /* of a member; a copy */
	bool cleaning;		      /* the worker puts back what another left */
	uint64_t since;
};

struct ip_iprobed {
	const struct ip_iprobed_options *options;
	int program, front, state;
	struct sockaddr_un address; /* where we listen */
	socklen_t address_size;
	pid_t front_pid;
	struct ip_iprobed_session **sessions;
	size_t nsessions;
	unsigned last_number;
	bool ending;
	bool front_ended; /* before we did */
};

/* One line to standard error: when, who, what. */
void ip_iprobed_log(const struct ip_iprobed_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Decides about what is asked, and fills in target, who, member and entry. 0, or -1 with the reason. connection: a socket. */
int ip_iprobed_decide(const struct ip_iprobed *d, int connection, struct ip_iprobed_session *s);
/* The same for a note of an earlier iprobed. */
void ip_iprobed_clear_entry(struct ip_policy_entry *entry);

/* Notes of sessions. */
int ip_iprobed_note(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
void ip_iprobed_forget(const struct ip_iprobed *d, const struct ip_iprobed_session *s);
/* What an earlier iprobed has left: calls clean for each session whose target still lives. */
void ip_iprobed_left_over(struct ip_iprobed *d,
			  void (*clean)(struct ip_iprobed *d, struct ip_iprobed_session *s));

#endif
