/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a part of a trace as a trace of its own (common/trace/trace_format.h): by time, thread,
 * process, function, depth or size. Calls that are open at an edge of the part's time look as
 * they do in a recording that begins or ends there. Events that were lost within the part remain
 * lost: the part's packets say how many. Times are those of the whole trace.
 */
#ifndef IP_TRIM_H
#define IP_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

struct ip_trim_options {
	uint64_t from, to;    /* TSC: from <= time < to */
	uint32_t tid, pid;    /* this thread or process only; 0: all */
	const bool *selected; /* by function; NULL: all */
	size_t depth;	      /* levels of calls that are kept; SIZE_MAX: all */
};

struct ip_trim_result {
	uint64_t events, lost, bytes; /* bytes: of streams */
	int fd;			      /* the directory; the caller closes it */
};

/* Sets options that choose the whole trace. */
void ip_trim_all(const struct ip_trace_reader *trace, struct ip_trim_options *ret);

/* Returns the first TSC that is at least ns after the recording's start. */
uint64_t ip_trim_tsc(const struct ip_trace_reader *trace, uint64_t ns);

/* One of the parts in time that a trace is cut into. */
struct ip_trim_part {
	char *dir;	   /* where to write it; it must not exist */
	uint64_t from, to; /* TSC: from <= time < to */
	struct ip_trim_result result;
};

/* Writes n parts of what the options choose (without their from and to). The parts are in order,
 * and each ends where the next begins. One reading serves 128 parts. A part exists whole or not
 * at all. *ret_done: how many of the first parts exist. Returns 0, or -1 with an error. */
int ip_trim_write(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		  struct ip_trim_part *parts, size_t n, size_t *ret_done);

/* Finds where to cut what the options choose into parts of at most size bytes each. *ret_cuts
 * (owned by the caller) holds *ret_n times after options->from, in order; a part begins at each.
 * newest: counts from the end, so that the first part is the smaller one. A part is larger than
 * size only where one tick of the clock has so many events. Returns 0, or -1 with an error. */
int ip_trim_cuts(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		 uint64_t size, bool newest, uint64_t **ret_cuts, size_t *ret_n);

#endif
