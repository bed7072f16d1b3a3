/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slowest calls of a trace, with their values, in one reading; or those with the largest of a
 * recorded number, which is the latency where a program measures it by itself. Memory is bounded:
 * as many calls are kept as are wanted, and the values of calls that are still open take 64 MiB at
 * most.
 *
 * Calls that were not finished when their thread or the recording ended are among them: one that
 * hangs is the slowest of all. Calls during which events were lost are not, since they may be
 * several calls taken for one; their number is told.
 */
#ifndef IP_SLOWEST_H
#define IP_SLOWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"
#include "analysis/read/value_match.h"

enum ip_slowest_by { IP_SLOWEST_BY_DURATION, IP_SLOWEST_BY_SELF, IP_SLOWEST_BY_VALUE };

struct ip_slow_call {
	uint64_t start, ticks, self; /* TSC; ticks: how long it took */
	uint64_t ordinal;	     /* among the calls of the trace, in the order of their ends */
	uint32_t function, pid, tid, member;
	uint32_t flags; /* IP_FRAME_... */
	enum ip_frame_end how;
	size_t depth;	 /* number of frames below it at its entry */
	uint32_t around; /* function of the recorded call around it; IP_NO_CALL_AROUND: none */
	/* What came with its entry and with its exit (common/trace/trace_format.h); NULL: nothing.
	 */
	uint64_t *args, *result;
	long double number; /* by value: its number */
};

#define IP_NO_CALL_AROUND UINT32_MAX

struct ip_slowest {
	struct ip_slow_call *calls; /* the slowest first; by value: the largest */
	size_t n;
	uint64_t events;
	uint64_t
		numberless; /* by value: calls that were left out, since they have no such number */
	uint64_t points;    /* by value: points, which are no calls, that have one */
	uint64_t chosen_points; /* points of selected functions that meet the matches */
	uint64_t earlier;	/* calls that were left out, since they were open at the attach */
	uint64_t suspect;	/* calls that were left out, since events were lost during them */
	uint64_t outer;		/* innermost: calls that were left out */
	uint64_t unkept;	/* calls whose values took too much memory while they were open */
};

/* So many calls are compared with each other. */
#define IP_SLOWEST_COMPARED 1000u

struct ip_slowest_options {
	size_t n; /* above 0 */
	/* Calls that are around others of these are left out, and the next ones take their places,
	 * as far as these are among the first IP_SLOWEST_COMPARED; n is no more than that. */
	bool innermost;
	enum ip_slowest_by by;
	const struct ip_value_name *value;	/* by value only */
	const bool *selected;			/* by function: those that count */
	const struct ip_value_matches *matches; /* ip_value_matches_find() has been called */
};

/* Reads the whole trace. Returns 0, or -1 with an error. */
int ip_slowest_find(struct ip_trace_reader *trace, const struct ip_slowest_options *options,
		    struct ip_slowest **ret);
/* Takes the value of a call out of what came with it, as groups by value do (stats.h): what it has
 * returned counts before what it was given. Returns false where it has none. */
bool ip_slow_call_value(const struct ip_slow_call *call, const struct ip_value_name *name,
			struct ip_value *ret);
/* How many of the calls are around others of them, of the first IP_SLOWEST_COMPARED: they are slow
 * because those are. */
size_t ip_slowest_count_around(const struct ip_slowest *slowest);
void ip_slowest_destroy(struct ip_slowest *slowest);

#endif
