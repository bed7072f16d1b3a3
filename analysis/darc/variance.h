/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call paths make the latency of F0 vary. The latency of an operation is the sum of what each
 * node of the ftree takes itself, in all of its calls. So its variance is the sum of all variances
 * of these, and twice that of all their covariances.
 *
 * Huang, Mozafari, Schoenebeck, Wenisch: A Top-Down Approach to Achieving Performance
 * Predictability in Database Systems (VProfiler), 2017.
 */
#ifndef IP_DARC_VARIANCE_H
#define IP_DARC_VARIANCE_H

#include "analysis/darc/ftree.h"
#include "analysis/darc/operations.h"

/* Pairs of so many nodes are looked at: those with the largest variances. */
#define IP_VARIANCE_PAIRED 64u

struct ip_node_variance {
	uint32_t node;
	double mean, variance; /* ticks, and their squares, of one operation */
	/* The covariance with F0's latency, as a part of F0's variance: those of all nodes sum up
	 * to 1. Negative where a node takes less time in slow operations. */
	double share;
};

/* Twice the covariance of two nodes, as a part of F0's variance. */
struct ip_node_covariance {
	uint32_t a, b;
	double share;
};

struct ip_variances {
	double mean, variance; /* of F0's latency */
	size_t operations;
	struct ip_node_variance *nodes; /* the largest share first */
	size_t n;
	struct ip_node_covariance *pairs; /* those of a hundredth or more, the largest first */
	size_t npairs;
};

/* Finds them. operations: with what belongs to each node alone. The caller clears *ret in any case.
 * Returns 0, or -1 with an error. */
int ip_variances_find(const struct ip_ftree *ftree, const struct ip_darc_operations *operations,
		      struct ip_variances *ret);
void ip_variances_clear(struct ip_variances *variances);

#endif
