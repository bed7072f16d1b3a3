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
	uint32_t number;  /* IP_CLIENT_EACH: which one */
	uint64_t connections, requests;
	uint64_t from, to;	    /* TSC: the first and the last moment of work for it; 0: none */
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

/* Who the clients of intervals are. */
struct ip_client_names {
	const char *const *texts; /* borrowed; NULL: it has no name */
	size_t n;
	/* What makes several of them one: the other end of a connection, without or with its port;
	 * or each is one. */
	enum ip_client_naming {
		IP_CLIENT_OTHER_END,
		IP_CLIENT_OTHER_END_AND_PORT,
		IP_CLIENT_EACH
	} naming;
	/* the process of a thread at a time; 0: it is none of the target's */
	uint32_t (*pid_of)(const void *context, int32_t tid, uint64_t tsc);
	const void *context;
};

/* Adds up. names must outlive *ret, which the caller clears in any case. Returns 0, or -1 with an
 * error. */
int ip_client_sums_make(struct ip_trace_reader *trace, const struct ip_states *states,
			const struct ip_client_intervals *intervals,
			const struct ip_client_names *names, struct ip_client_sums *ret);
void ip_client_sums_clear(struct ip_client_sums *sums);

/* Writes the other end in the name of a connection, "tcp 10.0.0.1:80 - 10.0.0.9:4711": "10.0.0.9",
 * with its port "10.0.0.9:4711". A name that has no other end stays as it is. */
void ip_client_name(const char *connection, bool port, char *ret, size_t size);

#endif
