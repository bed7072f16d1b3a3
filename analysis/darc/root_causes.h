/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which call paths make the calls of F0 slow that lie in a peak: the root causes.
 *
 * Traeger, Deras, Zadok: DARC: Dynamic Analysis of Root Causes of Latency Distributions, 2008.
 * From F0 downwards, for each operation in the peak: the callees whose longest call lies in the bin
 * (a power of two) of the largest are counted; and so is what the function takes outside of its
 * callees, its own residue. Those with the largest counts are root causes. Into callees among them
 * the search descends. What of several calls of one callee is not the longest one counts as the
 * caller's own, which is the loop.
 *
 * What differs from the paper: where the peak is slower than other operations (the reference),
 * only what is longer than in most of these counts. So a callee that always takes long is no cause
 * of a slow peak. Where more calls than usual make a loop long, its caller is the cause; where its
 * calls are slower, the callee is. Waiting for a CPU hits whatever runs, so it counts for F0 as a
 * cause of its own, if the operation would not be of the peak without it.
 */
#ifndef IP_ROOT_CAUSES_H
#define IP_ROOT_CAUSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/darc/ftree.h"
#include "analysis/darc/operations.h"

/* A cause of fewer calls may be chance. */
#define IP_DARC_CALLS 5u

enum ip_darc_stop {
	IP_DARC_OWN,	   /* it is the function itself */
	IP_DARC_DEPTH,	   /* deeper than the options allow */
	IP_DARC_PREEMPTED, /* its thread waited for a CPU, or was interrupted, wherever that was: of
			    * F0 alone */
	IP_DARC_SPREAD, /* its callees and itself are slower in proportion: no path is the cause */
};

/* One operation, and a call in it. call NULL: there was none of the node. */
struct ip_darc_sample {
	const struct ip_darc_operation *operation;
	const struct ip_darc_call *call;
};

/* A loop that is a part of a function's own residue. */
struct ip_darc_loop {
	uint32_t node; /* the callee; IP_FTREE_NONE: there is no loop */
	/* in the mean of the operations, and in most of the reference */
	double calls, reference_calls;
	double ticks, reference_ticks;
};

struct ip_darc_cause {
	uint32_t node;
	enum ip_darc_stop stop;
	struct ip_darc_sample *samples; /* operations of which it is the cause */
	size_t n;
	struct ip_darc_sample *reference; /* as many as the reference has */
	double share;			  /* of the operations of the peak */
	size_t path;			  /* the same of all causes with the same functions */
	bool chance;			  /* it may be: kept only where that was wanted */
	struct ip_darc_loop loop;
};

/* What was found of a node that the search has looked at. Ticks are means. */
struct ip_darc_figures {
	bool looked, cause; /* cause: it is on the path of a root cause */
	uint64_t operations, maxcount;
	double calls, longest,
		sum; /* in operations of the peak in which the node above is looked at */
	double reference_calls, reference_longest, reference_sum; /* in most of the reference */
	/* of a node that the search has descended into */
	double own, reference_own;
	uint64_t own_maxcount;
};

struct ip_root_causes {
	struct ip_darc_cause *items; /* the largest share first */
	size_t n;
	struct ip_darc_figures *figures; /* by node of the ftree */
	size_t nfigures;
	bool depth_reached;
	/* which functions the search has had to look at, at once, at most */
	size_t functions;
};

struct ip_root_causes_options {
	uint32_t depth;
	double maxcount_percent; /* of the largest count, that a root cause has at least */
	double ticks_per_ns;
	bool queue; /* for how long others had the CPUs of threads is known */
	/* An operation that took as many ticks without that is of the peak in any case: waiting is
	 * no cause of it then. */
	double peak_from;
	bool keeps_chance; /* what may be chance is told, and not left out */
};

/* peak: operations of the peak; reference: others; none: only the peak's own figures count. They
 * have what belongs to each node alone (ip_darc_builder_options.own). Both must outlive *ret, which
 * the caller clears in any case. Returns 0, or -1 with an error. */
int ip_root_causes_find(const struct ip_ftree *ftree, const struct ip_darc_operations *peak,
			const struct ip_darc_operations *reference,
			const struct ip_root_causes_options *options, struct ip_root_causes *ret);
void ip_darc_cause_clear(struct ip_darc_cause *cause);
void ip_root_causes_clear(struct ip_root_causes *causes);

#endif
