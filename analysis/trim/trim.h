/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a trace, written as a trace of its own (common/trace_format.h): by time, thread,
 * process, function, depth or size. Calls that are open at an edge of the time look as they do in a
 * recording that begins or ends there. What was lost within the part stays lost: its packets say
 * how much. Times stay what they are in the whole trace.
 */
#ifndef IP_TRIM_H
#define IP_TRIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/callstack/trace.h"

struct ip_trim_options {
	uint64_t from, to;    /* TSC: from <= time < to */
	uint32_t tid, pid;    /* of these alone; 0: of all */
	const bool *selected; /* by function; NULL: all */
	size_t depth;	      /* levels that are kept; SIZE_MAX: all */
};

struct ip_trim_result {
	uint64_t events, lost, bytes; /* of streams */
	int fd;			      /* the directory, the caller's to close */
};

/* All of the trace. */
void ip_trim_all(const struct ip_trace_reader *trace, struct ip_trim_options *ret);

/* The first TSC at least ns after the recording's start. */
uint64_t ip_trim_tsc(const struct ip_trace_reader *trace, uint64_t ns);

/* One of the parts in time that the trace is cut into. */
struct ip_trim_part {
	char *dir;	   /* where to write it; it must not exist */
	uint64_t from, to; /* TSC: from <= time < to */
	struct ip_trim_result result;
};

/* Writes n parts of what the options choose (but for their from and to), in order, each ending
 * where the next begins, with one reading for every 128 of them. A part is there whole or not at
 * all. *ret_done: how many of the first ones are. 0, or -1 with an error. */
int ip_trim_write(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		  struct ip_trim_part *parts, size_t n, size_t *ret_done);

/* Where to cut what the options choose into parts of at most size bytes each: *ret_cuts (the
 * caller's) are *ret_n times behind options->from, in order; a part begins at each. newest:
 * counted from the end, so that the first part is the smaller one. A part is larger than that
 * only where one tick of the clock has so many events. 0, or -1 with an error. */
int ip_trim_cuts(struct ip_trace_reader *trace, const struct ip_trim_options *options,
		 uint64_t size, bool newest, uint64_t **ret_cuts, size_t *ret_n);

#endif
