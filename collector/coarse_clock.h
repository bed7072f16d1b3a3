/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of --time coarse. A thread of iprobe, the clock thread, refreshes the clock line
 * (struct ip_area_clock), from which the target's threads take their time stamps. It also notes how
 * late these stamps may be.
 */
#ifndef IP_COARSE_CLOCK_H
#define IP_COARSE_CLOCK_H

#include <stdint.h>

#include "hotpatcher/shm/area.h"

struct ip_coarse_clock;

struct ip_coarse_clock_stats {
	uint64_t refreshes;
	/* at most so many TSC ticks lie between a stamp and its event: for 99 % of the time, and
	 * ever */
	uint64_t late, latest;
	uint64_t cpu_ns;
};

/* Refreshes the clock line of the area once before it returns, and from then on in the clock
 * thread. The notes go to DIR/iprobe/stamps (common/trace/trace_format.h). If an iprobe that was
 * killed has left notes there, new ones are added to them. */
int ip_coarse_clock_start(struct ip_area *area, int dirfd, struct ip_coarse_clock **ret);

/* Replaces the notes about stamps before that time (TSC) by one note, whose width is the largest of
 * theirs. So the file does not grow with notes about packets that have been deleted. If this fails
 * (the disk is full), the file stays as it is. Not to be called from two threads at once. */
void ip_coarse_clock_condense(struct ip_coarse_clock *coarse_clock, uint64_t before);

/* Refreshes the clock line for the last time and ends the clock thread. No hook may take a stamp
 * any more. coarse_clock and ret may be NULL. */
void ip_coarse_clock_stop(struct ip_coarse_clock *coarse_clock, struct ip_coarse_clock_stats *ret);

#endif
