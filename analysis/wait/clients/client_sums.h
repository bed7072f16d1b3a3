/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work was done for each client, and by which functions: the intervals in which threads
 * worked for it (client_intervals.h) are laid over the states of the threads and over their calls.
 *
 * Of a call that reads a request what the thread was blocked in it, and the time until it had a
 * CPU again, is not work for the client.
 */
#ifndef IP_CLIENT_SUMS_H
#define IP_CLIENT_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/wait/clients/client_intervals.h"
#include "analysis/wait/wait_profile.h"

struct ip_client_sum {
	const char *name; /* NULL: connections whose names are not known */
	uint64_t connections, requests;
	bool datagrams;		    /* it is a socket of datagrams: all who have sent to it */
	struct ip_wait_parts parts; /* blocked: what is left of elapsed */
};

/* What the innermost recorded calls of a function did for a client. */
struct ip_client_function {
	uint32_t client, function;
	uint64_t cpu, elapsed; /* TSC */
};

struct ip_client_sums {
	struct ip_client_sum *clients; /* those first for which threads had the CPU longest */
	size_t n;
	struct ip_client_function *functions; /* by client, those first that had the CPU longest */
	size_t nfunctions;
	uint64_t nobody; /* TSC: CPU time of the target's threads that was for no client */
	uint64_t events;
	char *memory; /* private: of the names */
};

/* Adds up. connections: those that the intervals name. by_port: each port of a client's machine is
 * another client. *ret: the caller clears it in any case. Returns 0, or -1 with an error. */
int ip_client_sums_make(struct ip_trace_reader *trace, const struct ip_states *states,
			const struct ip_client_intervals *intervals,
			const struct ip_client_connections *connections, bool by_port,
			struct ip_client_sums *ret);
void ip_client_sums_clear(struct ip_client_sums *sums);

/* Writes the other end in the name of a connection, "tcp 10.0.0.1:80 - 10.0.0.9:4711": "10.0.0.9",
 * with its port "10.0.0.9:4711". A name that has no other end stays as it is. */
void ip_client_name(const char *connection, bool port, char *ret, size_t size);

#endif
