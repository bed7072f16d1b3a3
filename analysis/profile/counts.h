/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What functions counted and measured instead of logging: DIR/iprobe/counts
 * (common/trace/trace_format.h), by function of the session. The file is input from outside:
 * everything is checked.
 */
#ifndef IP_COUNTS_H
#define IP_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"

struct ip_recording_member;

#define IP_COUNT_BUCKETS 64u

/* The figures of one function, over all its numbers (inlined instances, parts). */
struct ip_count {
	/* Some number of the function was counted or measured. The fields after calls are valid
	 * only where measured is true. */
	bool counted, measured;
	uint64_t calls;		/* calls that were counted or measured */
	uint64_t ended;		/* of calls: those whose duration is known */
	uint64_t sum, min, max; /* of their durations, in TSC ticks */
	/* The sum without the time of other measured calls inside them. has_self: the trace
	 * tells it. */
	uint64_t self;
	bool has_self;
	/* Of ended: calls whose time ends at a tail exit. has_tailed: the trace tells it. */
	uint64_t tailed;
	bool has_tailed;
	uint64_t buckets[IP_COUNT_BUCKETS];
};

/* What a thread that had not ended counted and measured, in the numbers of its packets. */
struct ip_count_thread {
	uint32_t member; /* of the recording */
	/* tid 0: all threads of the member together for which there was no memory of their own */
	uint32_t pid, tid;
	uint64_t claimed; /* tells threads of one tid apart */
	uint64_t calls;
	uint64_t self; /* in TSC ticks */
};

struct ip_counts {
	struct ip_count *functions; /* as in session->functions */
	size_t nfunctions;
	struct ip_count_thread *threads; /* in the order of the file */
	size_t nthreads;
	uint64_t calls;
	uint64_t tsc; /* time at which the file was written; 0: there is no such file */
	unsigned nbuckets, shift;
};

/* Reads counts from memory. name is for messages. */
int ip_counts_parse(const char *name, const char *text, size_t size,
		    const struct ip_recording *session, struct ip_counts **ret);

/* Makes empty counts for the functions of a session. Returns NULL with an error. */
struct ip_counts *ip_counts_create(const struct ip_recording *session);

/* Reads counts from memory and adds them to those that there are. member: whose numbers they are
 * (analysis/read/members.h); NULL: the session's. After an error the counts are of no use. */
int ip_counts_add(const char *name, const char *text, size_t size,
		  const struct ip_recording *session, const struct ip_recording_member *member,
		  struct ip_counts *counts);

void ip_counts_destroy(struct ip_counts *counts);

/* Return the bounds of a bucket in ns: it begins at ip_counts_from() and ends before
 * ip_counts_to(). UINT64_MAX: it has no upper bound. */
uint64_t ip_counts_from(const struct ip_counts *counts, const struct ip_recording *session,
			unsigned bucket);
uint64_t ip_counts_to(const struct ip_counts *counts, const struct ip_recording *session,
		      unsigned bucket);

/* Finds the bucket of a percentile: it holds the call whose duration is not exceeded by the
 * share (0..1) of all calls that have ended. *ret_from and *ret_below are its bounds in ns,
 * narrowed by the shortest and the longest call: *ret_from <= duration <= *ret_below. At least
 * one call must have ended. */
void ip_counts_percentile(const struct ip_counts *counts, const struct ip_recording *session,
			  const struct ip_count *count, double share, uint64_t *ret_from,
			  uint64_t *ret_below);

#endif
