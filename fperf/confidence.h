/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to what is said of a function: means with their 95 % confidence intervals, and how
 * often it was called while nobody was counting.
 */
#ifndef IP_CONFIDENCE_H
#define IP_CONFIDENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Two-sided 95 % of Student's t with so many degrees of freedom, at least 1. */
double ip_fperf_t95(uint64_t freedom);

/* Mean of n values, of which the sum and the sum of the squares are known. *ret_ci: half the
 * width of its interval; negative: not known (fewer than two values). */
double ip_fperf_mean(uint64_t n, double sum, double squares, double *ret_ci);

/*
 * Calls in the gaps, while a function's probes were out. Time is CPU time of the process, in
 * seconds, less what our hooks took: what sleeps calls nothing. In a gap * it is called as often as
 * on average in the stretch before it and that behind it; how far that may be wrong is told by how
 * much neighbouring stretches differ, and by how far the length of a stretch may be: the kernel
 * brings another process's CPU time up to date by the tick, where nobody looks closer
 * (cpu_watch.h).
 */
struct ip_fperf_gaps {
	bool out;
	double since; /* when it went out; */
	/* the length of the present stretch may be wrong by so much; set by whoever uses it */
	double tick;
	double lengths, ticks; /* of the stretches behind gaps: sum of both */
	/* the stretch that it is, or was last, live in: its newest part */
	double stretch_calls, stretch;
	bool longer;	/* it has an older part, too */
	double rate;	/* of the stretch before the gap that waits for its other end */
	double waiting; /* length of that gap; 0: none waits */
	/* in gaps of which both ends are known; sum of the squares of their lengths */
	double calls, squares;
	double differences; /* of rates, squared: sum */
	uint64_t n;
};

/* Calls in some more time while it is live. */
void ip_fperf_live(struct ip_fperf_gaps *g, double calls, double seconds);
void ip_fperf_goes(struct ip_fperf_gaps *g, double now);
void ip_fperf_comes(struct ip_fperf_gaps *g, double now);

/* Calls in all gaps up to now. *ret_ci as above: not known where there were fewer than two gaps
 * with both ends. */
double ip_fperf_missed(const struct ip_fperf_gaps *g, double now, double *ret_ci);

#endif
