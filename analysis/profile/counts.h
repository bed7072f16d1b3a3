/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What functions counted and measured instead of logging: DIR/iprobe/counts
 * (common/trace_format.h), by the functions of the session. The file is input from outside:
 * everything is checked.
 */
#ifndef IP_COUNTS_H
#define IP_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/read/session.h"

#define IP_COUNT_BUCKETS 64u

/* Of one function; all its numbers (inlined instances, parts) together. */
struct ip_count {
	/* some number of it was; measured: the fields behind calls make sense */
	bool counted, measured;
	uint64_t calls;		/* all that were counted or measured */
	uint64_t ended;		/* of calls: those whose duration is known */
	uint64_t sum, min, max; /* of their durations, TSC ticks */
	/* the same without what other measured calls in them took; has_self: the trace tells */
	uint64_t self;
	bool has_self;
	/* of ended: those whose time ends at a tail exit; has_tailed: the trace tells */
	uint64_t tailed;
	bool has_tailed;
	uint64_t buckets[IP_COUNT_BUCKETS];
};

struct ip_counts {
	struct ip_count *functions; /* as in session->functions */
	size_t nfunctions;
	uint64_t calls;
	uint64_t tsc; /* when it was written; 0: there is no such file */
	unsigned nbuckets, shift;
};

/* Loads them; none where the trace has no such file. 0, or -1 with an error. */
int ip_counts_load(const char *dir, const struct ip_recording *session, struct ip_counts **ret);

/* The same from memory; name is for messages. */
int ip_counts_parse(const char *name, const char *text, size_t size,
		    const struct ip_recording *session, struct ip_counts **ret);

void ip_counts_destroy(struct ip_counts *counts);

/* Bounds of a bucket in ns, the upper one not included; UINT64_MAX: there is none. */
uint64_t ip_counts_from(const struct ip_counts *counts, const struct ip_recording *session,
			unsigned bucket);
uint64_t ip_counts_to(const struct ip_counts *counts, const struct ip_recording *session,
		      unsigned bucket);

/* The bucket in which the call lies whose duration the share (0..1) of all that have ended does
 * not exceed. *ret_from, *ret_below: its bounds in ns, narrowed by the shortest and the longest
 * call: *ret_from <= duration <= *ret_below. There is such a call. */
void ip_counts_percentile(const struct ip_counts *counts, const struct ip_recording *session,
			  const struct ip_count *count, double share, uint64_t *ret_from,
			  uint64_t *ret_below);

#endif
