/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose connection a descriptor is. A client is who is at the other end of a connection that a
 * process of the trace has accepted; client_intervals.h has the rules. A child process has the
 * connections of its parent. A socket of datagrams that has received before it has sent is one
 * client, since the kernel's events do not have the addresses of its peers.
 */
#ifndef IP_CLIENT_CONNECTIONS_H
#define IP_CLIENT_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/wait/descriptors/descriptors.h"
#include "analysis/wait/descriptors/service_ports.h"
#include "analysis/wait/number_map.h"

#define IP_NOBODY UINT32_MAX

struct ip_client_connections {
	/* The connections, as the descriptors name them ("tcp 127.0.0.1:80 - 127.0.0.1:4711");
	 * NULL: those whose names are not known. The descriptors own the texts. */
	const char **clients;
	size_t nclients;
	/* Private. */
	const struct ip_descriptors *descriptors;
	uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc);
	const void *context;
	size_t *by_text; /* open addressing, index + 1 */
	size_t by_text_size;
	struct ip_number_map accepted; /* by process and descriptor: its client, plus 1 */
	/* by process, plus 1: the descriptors that accepted tells of */
	struct ip_number_map by_pid;
	struct ip_accepted_list {
		int32_t *fds;
		size_t n;
	} * lists;
	size_t nlists;
	uint64_t inherited;
	/* by name, as a number: whether a socket of datagrams has received before it has sent */
	struct ip_number_map datagrams;
	/* By connection, as a number: who is served by the thread that wrote to its other end last,
	 * plus 1. */
	struct ip_number_map handed_on;
	struct ip_service_ports ports;
};

/* descriptors: of the trace; they must outlive the connections. pid_of: the process of a thread at
 * a time; 0: not known. */
void ip_client_connections_init(struct ip_client_connections *connections,
				const struct ip_descriptors *descriptors,
				uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc),
				const void *context);
void ip_client_connections_clear(struct ip_client_connections *connections);

/* The connection of a client that a thread's descriptor is: *ret is an index into clients, or
 * IP_NOBODY. Returns 0, or -1 with an error. */
int ip_client_connections_find(struct ip_client_connections *connections, int32_t tid, int32_t fd,
			       uint64_t tsc, uint32_t *ret);

/* A thread has received from a descriptor, or sends to it. Returns 0, or -1 with an error. */
int ip_client_connections_transfer(struct ip_client_connections *connections, int32_t tid,
				   int32_t fd, uint64_t tsc, bool receives);
/* Whether the name is one of a socket of datagrams that is not connected. */
bool ip_client_connections_is_datagram(const struct ip_client_connections *connections,
				       const char *name);
/* A process was made by another one. Returns 0, or -1 with an error. */
int ip_client_connections_fork(struct ip_client_connections *connections, uint32_t parent,
			       uint32_t child);

/* What a thread's descriptor is; IP_WAIT_OTHER: not known. */
enum ip_wait_kind ip_client_connections_kind(const struct ip_client_connections *connections,
					     int32_t tid, int32_t fd, uint64_t tsc);

/* A thread has accepted a connection. Returns 0, or -1 with an error. */
int ip_client_connections_accept(struct ip_client_connections *connections, int32_t tid, int64_t fd,
				 uint64_t tsc);
/* A thread's process has closed descriptors, both numbers included. Returns 0, or -1 with an error.
 */
int ip_client_connections_close(struct ip_client_connections *connections, int32_t tid,
				uint64_t from, uint64_t to, uint64_t tsc);
/* A thread that works for a client (IP_NOBODY: for none) writes to a descriptor that is no
 * client's: the other end works for that client now. Returns 0, or -1 with an error. */
int ip_client_connections_hand_on(struct ip_client_connections *connections, int32_t tid,
				  int32_t fd, uint64_t tsc, uint32_t client);
/* Calls were lost: what was accepted may be closed. */
void ip_client_connections_lose(struct ip_client_connections *connections);

#endif
