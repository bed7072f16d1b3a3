/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of --time coarse: a thread of ours that refreshes the line from which the target's
 * threads take their stamps (struct ip_area_clock), and notes how true they are.
 */
#ifndef IP_COARSE_CLOCK_H
#define IP_COARSE_CLOCK_H

#include <stdint.h>

#include "hotpatcher/shm/area.h"

struct ip_coarse_clock;

struct ip_coarse_clock_stats {
	uint64_t refreshes;
	uint64_t late,
		/* TSC ticks from a stamp to its event at most: for 99 % of the time, and ever */
		latest;
	uint64_t cpu_ns;
};

/* Refreshes the line of the area once, before it returns, and from then on. Notes go to
 * DIR/iprobe/stamps (common/trace_format.h). Goes on with those of an iprobe that was killed. */
int ip_coarse_clock_start(struct ip_area *area, int dirfd, struct ip_coarse_clock **ret);

/* Puts what was noted of stamps before that time together in one line, as wide as the widest of
 * it: so that what is on disk does not grow with what is not there any more. Where it cannot be
 * done (no room on the disk) it stays as it is. Not from two threads at once. */
void ip_coarse_clock_condense(struct ip_coarse_clock *coarse_clock, uint64_t before);

/* A last time; no hook may take a stamp any more. NULL is fine, and for ret too. */
void ip_coarse_clock_stop(struct ip_coarse_clock *coarse_clock, struct ip_coarse_clock_stats *ret);

#endif
