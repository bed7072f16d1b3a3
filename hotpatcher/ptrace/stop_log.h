/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of stops: each stop of a target, one by one, as far as there is room, and the sums of
 * all.
 *
 * A target has a log of the stops that nobody has been told of yet: those that changed nothing, and
 * those of other processes than the target. Each patch, each change of a session and each session's
 * summary has a log, too. Stops are moved from one log to the next, so that none is lost on its
 * way.
 */
#ifndef IP_STOP_LOG_H
#define IP_STOP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_STOP_LOG_MAX 256 /* that are told one by one */

struct ip_stop_record {
	const char *kind;    /* static text: "attach", "detach"...; NULL: not known yet */
	uint64_t tsc;	     /* when it began */
	uint64_t ns;	     /* first INTERRUPT to last DETACH */
	uint64_t running_ns; /* the same for the threads that were running; 0: there was none */
	size_t threads, pages, sites;
	bool failed; /* nothing was changed */
};

/* Looks at one thread, which stands for a moment. They are no stops. */
struct ip_stop_looks {
	size_t n;
	uint64_t ns, longest_ns;
};

struct ip_stop_log {
	struct ip_stop_record items[IP_STOP_LOG_MAX]; /* the first ones */
	size_t n;
	size_t more;	  /* that found no room there */
	uint64_t more_ns; /* the longest of those */
	uint64_t ns;	  /* of all stops together */
	struct ip_stop_looks looks;
};

void ip_stop_log_add(struct ip_stop_log *log, const struct ip_stop_record *record);
void ip_stop_log_add_look(struct ip_stop_log *log, uint64_t ns);

/* Adds what another log has. kind: of those whose kind is not known; NULL: it stays so. */
void ip_stop_log_append(struct ip_stop_log *log, const struct ip_stop_log *other, const char *kind);

/* The same, and empties the other one. */
void ip_stop_log_move(struct ip_stop_log *log, struct ip_stop_log *other, const char *kind);

/* Of all stops, ns. */
uint64_t ip_stop_log_longest(const struct ip_stop_log *log);

size_t ip_stop_log_failed(const struct ip_stop_log *log);

/* The error `why`; and, where threads stood for nothing, how long. Returns -1. */
int ip_stop_tell_in_vain(const struct ip_stop_log *log, const char *why);

void ip_stop_log_clear(struct ip_stop_log *log);

#endif
