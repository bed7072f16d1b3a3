/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which client threads worked, and when (Dagenais and others, section 4.5.2 of their review:
 * the CPU time for client x). A client is who is at the other end of a connection that a process of
 * the trace has accepted.
 *
 * Rules, by the system calls of the threads:
 *
 *   - A connection is a client's if accept(2) has returned it, if it has the local port of a
 *     socket that waits for connections, or, of unix(7), if its own end has a path and the other
 *     one has none.
 *     A forked process has the connections of its parent.
 *   - A socket of datagrams (udp, or one of unix(7) with a path) that is not connected, and that
 *     was received from before it was sent to, is one client: the events do not have the addresses
 *     of its peers. Each datagram is a request.
 *   - A thread works for a client from the return of a call that has read something from its
 *     connection until it asks for other work: by a call that waits for several descriptors, by
 *     accept(2), or by one that reads from a client's connection. It ends, too, where the thread
 *     closes the connection.
 *   - A call that reads from the connection of the client that is served, or of the one that it
 *     begins, belongs to that client, except while the thread was blocked in it.
 *   - A thread that works for no client, and writes to one, has worked for it since it last waited
 *     for other work: for several descriptors, for a condition or semaphore, for a pipe, or for a
 *     time, or has answered, or began. (It has got the request from another thread.)
 *   - Where a thread works for a client and writes to a connection that is no client's, the thread
 *     that reads at its other end works for that client: if its process is in the trace, too.
 *   - Where events of system calls were lost nobody is known to work for anybody until the next
 *     one.
 */
#ifndef IP_CLIENT_INTERVALS_H
#define IP_CLIENT_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/kernel_reader.h"
#include "analysis/wait/clients/client_connections.h"
#include "analysis/wait/thread_states.h"

/* A thread worked for a client. */
struct ip_client_interval {
	uint64_t from, to; /* TSC */
	int32_t tid;
	uint32_t client; /* index into the connections' clients */
	uint32_t begins; /* so many requests of the client's were taken up here */
	bool asks; /* in a call that reads a request: what it is blocked there is not for it */
};

struct ip_client_intervals {
	struct ip_client_interval *items; /* by thread, then by time */
	size_t n;
	uint64_t calls; /* system calls that were seen */
};

/* Reads the system calls. states: of the trace. connections: has been initialised for this trace,
 * and gets its clients. *ret: the caller clears it in any case. Returns 0, or -1 with an error. */
int ip_client_intervals_read(struct ip_kernel_reader *reader, const struct ip_states *states,
			     struct ip_client_connections *connections,
			     struct ip_client_intervals *ret);
void ip_client_intervals_clear(struct ip_client_intervals *intervals);

#endif
