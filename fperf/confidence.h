/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From samples to what is reported of a function: means with their 95 % confidence intervals, and
 * how often the function was called while its calls were not counted.
 */
#ifndef IP_CONFIDENCE_H
#define IP_CONFIDENCE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the two-sided 95 % quantile of Student's t with that many degrees of freedom (at least
 * 1). */
double ip_fperf_t95(uint64_t freedom);

/* Returns the mean of n values, from their sum and the sum of their squares. *ret_ci: half the
 * width of the interval; negative: not known (fewer than two values). */
double ip_fperf_mean(uint64_t n, double sum, double squares, double *ret_ci);

/*
 * Calls in the gaps, the times in which a function's probes were out. Time is CPU time of the
 * process, in seconds, less what the hooks took: a process that sleeps calls nothing. In a gap the
 * function is taken to be called as often as on average in the stretch before it and the stretch
 * after it. The uncertainty of this follows from how much neighbouring stretches differ, and from
 * how exactly the length of a stretch is known. The kernel brings another process's CPU time up to
 * date only at each tick, unless the process is watched (cpu_time.h).
 */
struct ip_fperf_gaps {
	bool out;
	double since; /* when the probes went out */
	/* the length of the present stretch may be wrong by so much; set by the caller */
	double tick;
	/* sums over the stretches after gaps: of their lengths, of their ticks */
	double lengths, ticks;
	/* the present or last stretch in which the function was live: its newest part */
	double stretch_calls, stretch;
	bool longer;	/* the stretch has an older part, too */
	double rate;	/* rate in the stretch before the gap that waits for its other end */
	double waiting; /* length of that gap; 0: no gap waits */
	/* over the gaps of which both ends are known: calls, and sum of the squares of the
	 * lengths */
	double calls, squares;
	double differences; /* sum of the squared differences of rates */
	uint64_t n;
};

/* ip_fperf_live() adds calls in more time while the function is live. ip_fperf_goes() begins a gap,
 * and ip_fperf_comes() ends it. */
void ip_fperf_live(struct ip_fperf_gaps *g, double calls, double seconds);
void ip_fperf_goes(struct ip_fperf_gaps *g, double now);
void ip_fperf_comes(struct ip_fperf_gaps *g, double now);

/* Returns the number of calls in all gaps up to now. *ret_ci as above: not known if there were
 * fewer than two gaps with both ends. */
double ip_fperf_missed(const struct ip_fperf_gaps *g, double now, double *ret_ci);

#endif
