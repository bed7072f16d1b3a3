/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's account: what the budget allows, what was spent; and what we take of a CPU ourselves.
 *
 * The account. Income is the budget's share (MARGIN of it) of the CPU time that the process has
 * had: of a program that sleeps nobody may take anything, of one with four busy threads four times
 * as much as of one. Spent is, in CPU time of the process:
 *   hooks    what they have measured of themselves, and what they take besides that (hook_ticks);
 *   counting calls of live functions without a quota, at what one costs (ip_fperf_call_cost()), on
 *   average over all rates as of the last decision;
 *   stops    their length, times the CPUs that the process keeps busy, since that is what stands
 *            still: of one that gets a tenth of a CPU, and waits for it else, a tenth.
 * What is over is saved, up to SAVE_S of income: a pause must not buy a burst that a user would
 * feel. It begins with ADVANCE_S of income: the first samples of each function, and the time until
 * hot ones are known, are paid from there.
 */
#ifndef IP_ACCOUNT_H
#define IP_ACCOUNT_H

#include "fperf/fperf_private.h"

#define IP_FPERF_SETTLED 0.3 /* of a new measurement goes into costs that are measured */

struct ip_session;

/* The session is live: what it has cost so far is the first thing that is spent. */
void ip_fperf_open_account(struct ip_fperf *f, const struct ip_session *s, uint64_t now);

/* Step 1 of fperf.h. counted: calls that were only counted are asked for too, which takes
 * longer. */
void ip_fperf_settle(struct ip_fperf *f, struct ip_session *s, bool counted);

/* For the last time: what hooks have spent. */
struct ip_fperf_spent ip_fperf_close_account(struct ip_fperf *f);

/* What one of so many samples has taken, ns. */
double ip_fperf_sample_cost(const struct ip_fperf *f, const struct ip_fperf_spent *spent,
			    uint64_t samples);

/* As much is saved up at most, ns. */
double ip_fperf_limit(const struct ip_fperf *f);

/* CPU time is exact from here on, as far as the kernel lets us, up to ip_fperf_unwatch(): it costs
 * the process something. */
void ip_fperf_watch(struct ip_fperf *f, pid_t pid);
void ip_fperf_unwatch(struct ip_fperf *f);
/* Whether it is so now. */
bool ip_fperf_is_watched(const struct ip_fperf *f);

/* CPU time of ours, s, by this clock: of this thread, which does all but moving rings; of all of
 * us. */
double ip_fperf_own(clockid_t clock);

/* Seconds until what has taken so many of ours may be done again, of which that share of the budget
 * is allowed. */
double ip_fperf_pause(const struct ip_fperf *f, double own_s, double share);

/* What something takes, from what was known of it and what it took now. The first time it takes
 * longer, and so may others. */
double ip_fperf_learn(double known, double now);

#endif
