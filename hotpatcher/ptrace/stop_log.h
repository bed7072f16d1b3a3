/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of stops: it holds each stop of a target, one by one, as long as there is room, and the
 * sums of all stops.
 *
 * A target has a log of the stops that have not been reported yet: stops that changed nothing, and
 * stops of other processes than the target. Each patch, each change of a session and each
 * session's summary has a log, too. Stops are moved from one log to the next, so that none is lost
 * on its way.
 */
#ifndef IP_STOP_LOG_H
#define IP_STOP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_STOP_LOG_MAX 256 /* stops that a log holds one by one */

struct ip_stop_record {
	const char *kind;    /* static text: "attach", "detach"...; NULL: not known yet */
	uint64_t tsc;	     /* the clock (TSC) when it began */
	uint64_t ns;	     /* first INTERRUPT to last DETACH */
	uint64_t running_ns; /* the same for threads that were running; 0: there was none */
	size_t threads, pages, sites;
	bool failed; /* nothing was changed */
	bool held;   /* the hold of one borrowed thread, while all others ran */
};

/* Looks: holds of one thread, for a moment, to see something or to have the thread do a little.
 * They do not count as stops. */
struct ip_stop_looks {
	size_t n;
	uint64_t ns, longest_ns;
};

struct ip_stop_log {
	struct ip_stop_record items[IP_STOP_LOG_MAX]; /* the first ones */
	size_t n;
	size_t more;	  /* stops that found no room in items */
	uint64_t more_ns; /* the length of the longest of those */
	bool more_own;	  /* one of those was a stop of the process itself: no hold, no child's */
	uint64_t ns;	  /* of all stops together */
	struct ip_stop_looks looks;
};

/* Adds a stop. */
void ip_stop_log_add(struct ip_stop_log *log, const struct ip_stop_record *record);
/* Adds what other looks came to. */
void ip_stop_looks_add(struct ip_stop_looks *looks, const struct ip_stop_looks *other);
/* Adds a look that took ns nanoseconds. */
void ip_stop_log_add_look(struct ip_stop_log *log, uint64_t ns);

/* Adds what another log has. Stops whose kind is not known get the given kind; NULL: it stays
 * unknown. */
void ip_stop_log_append(struct ip_stop_log *log, const struct ip_stop_log *other, const char *kind);

/* As ip_stop_log_append(); then empties the other log. */
void ip_stop_log_move(struct ip_stop_log *log, struct ip_stop_log *other, const char *kind);

/* The length of the longest of all stops, in nanoseconds. */
uint64_t ip_stop_log_longest(const struct ip_stop_log *log);

/* Splits the stops into those of the process itself, holds among them, and those of children that
 * it forked ("child"). Looks are left out. */
void ip_stop_log_split(const struct ip_stop_log *log, struct ip_stop_log *ret_own,
		       struct ip_stop_log *ret_children);

/* Whether no thread was ever stopped but one that was borrowed. */
bool ip_stop_log_only_held(const struct ip_stop_log *log);

/* The number of stops that changed nothing. */
size_t ip_stop_log_failed(const struct ip_stop_log *log);

/* Sets the error `why`. If threads stood in stops that changed nothing, the error also says how
 * long. Returns -1. */
int ip_stop_tell_in_vain(const struct ip_stop_log *log, const char *why);

void ip_stop_log_clear(struct ip_stop_log *log);

#endif
