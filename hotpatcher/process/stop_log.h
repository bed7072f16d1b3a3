/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops of a target that nobody has been told of yet: those that changed nothing, and those of
 * others than the target itself. Who has a session or a summary takes them from here
 * (ip_session_tell_stops()), so that none is lost on its way.
 */
#ifndef IP_STOP_LOG_H
#define IP_STOP_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_STOP_LOG_MAX 64 /* that are told one by one */

struct ip_stop_record {
	uint64_t tsc;	     /* when it began */
	uint64_t ns;	     /* first INTERRUPT to last DETACH */
	uint64_t running_ns; /* the same for the threads that were running; 0: there was none */
	size_t threads, pages, sites;
	bool failed; /* nothing was changed */
};

/* Looks at one thread, which stands for a moment. */
struct ip_stop_looks {
	size_t n;
	uint64_t ns, longest_ns;
};

struct ip_stop_log {
	struct {
		const char *kind; /* static text; NULL: what it was tried for */
		struct ip_stop_record record;
	} items[IP_STOP_LOG_MAX]; /* the last is the longest of those that found no room */
	size_t n;
	size_t more; /* that found no room */
	struct ip_stop_looks looks;
};

void ip_stop_log_add(struct ip_stop_log *log, const char *kind,
		     const struct ip_stop_record *record);
void ip_stop_log_look(struct ip_stop_log *log, uint64_t ns);

/* The error `why`; and, where threads stood for nothing, how long. Returns -1. */
int ip_stop_tell_in_vain(const struct ip_stop_record *stops, size_t n, const char *why);

/* Forgets those that have been told. */
void ip_stop_log_clear(struct ip_stop_log *log);

#endif
