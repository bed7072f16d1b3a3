/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the search for root causes (root_causes.h): of calls of one node, which of its
 * callees, or its own residue, makes them slow.
 */
#ifndef IP_CANDIDATES_H
#define IP_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/darc/root_causes.h"

/* In the place of a node: that the thread waited for a CPU. */
#define IP_CANDIDATE_QUEUE (IP_FTREE_NONE - 1)

/* That many operations have waited for a CPU does not make what is slow in others chance: beside it
 * a cause needs so many times less. */
#define IP_CANDIDATE_QUEUE_PART 4u

struct ip_candidate {
	uint32_t node; /* IP_FTREE_NONE: the residue */
	uint64_t maxcount;
	uint64_t looped; /* times in which it made the residue the largest, as a loop */
	bool cause;
	/* in the mean of the samples; of the residue longest alone. Ticks. */
	double calls, longest, sum;
	/* medians of the reference; each: of one call */
	double reference_calls, reference_longest, reference_sum, reference_each;
	double excess; /* the sum of what counted, over all samples */
};

struct ip_candidates {
	const struct ip_darc_sample *samples, *reference; /* borrowed */
	size_t n, nreference;
	struct ip_candidate *columns; /* the residue first */
	size_t ncolumns;
	size_t *chosen; /* by sample: the column that is its cause; SIZE_MAX: none */
	bool queue;	/* that the thread waited for a CPU is one of the candidates */
	double peak_from;
	bool spread;   /* all are slower in proportion: there is no cause here */
	double excess; /* of all samples together */
	double ticks_per_ns;
};

/* Makes the columns. queue: one of them is that the thread waited for a CPU;
 * peak_from: see root_causes.h.  The caller clears
 * *ret in any case. Returns 0, or -1 with an error. */
int ip_candidates_make(const struct ip_ftree *ftree, const struct ip_darc_sample *samples, size_t n,
		       const struct ip_darc_sample *reference, size_t nreference,
		       double ticks_per_ns, bool queue, double peak_from,
		       struct ip_candidates *ret);
/* Finds the causes. percent: of the largest count. */
void ip_candidates_decide(struct ip_candidates *candidates, double percent);
/* The loop that has most often made the residue a cause, if there is one. */
void ip_candidates_loop(const struct ip_candidates *candidates, struct ip_darc_loop *ret);
/* Of the latencies of operations, in ticks; 0: there are none. */
double ip_candidates_mean(const struct ip_darc_operations *operations);
double ip_candidates_median(const struct ip_darc_operations *operations);
void ip_candidates_clear(struct ip_candidates *candidates);

#endif
