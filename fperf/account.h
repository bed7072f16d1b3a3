/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FPerf's account: what the budget allows and what was spent. Also: the CPU time that fperf takes
 * itself.
 *
 * The account. Its income is that of credit.h. What is spent, in CPU time of the process:
 *   hooks     what the hooks have measured of themselves, and what they take besides that
 *             (hook_ticks);
 *   counting  calls of live functions without a quota, each at the cost of a counted call
 *             (ip_fperf_call_cost()), averaged over all call rates at the last decision;
 *   stops     their length, times the number of CPUs that the process keeps busy, since a stop
 *             keeps that much work from being done. For a process that gets a tenth of a CPU, and
 *             otherwise waits for it, this is a tenth.
 * The advance pays for the first samples of each function, and for the time until the hot functions
 * are known.
 */
#ifndef IP_ACCOUNT_H
#define IP_ACCOUNT_H

#include "fperf/fperf_private.h"

#define IP_FPERF_SETTLED 0.3 /* A new measurement has this weight in costs that are measured. */

struct ip_session;

/* The session is live. What it has cost so far is the first amount that is spent. */
void ip_fperf_open_account(struct ip_fperf *f, const struct ip_session *s, uint64_t now);

/* Step 1 of fperf.h. counted: also reads the calls that were only counted, which takes longer. */
void ip_fperf_settle(struct ip_fperf *f, struct ip_session *s, bool counted);

/* Takes back what stops have spent since their sum was stops_ns. --alternate makes changes that a
 * run without it would not make: what they cost must not be missing for samples. */
void ip_fperf_refund_stops(struct ip_fperf *f, double stops_ns);

/* Brings the account up to date for the last time. Returns what the hooks have spent. */
struct ip_fperf_spent ip_fperf_close_account(struct ip_fperf *f);

/* Returns what one sample has taken on average, in ns. samples: number of samples that spent
 * belongs to. */
double ip_fperf_sample_cost(const struct ip_fperf *f, const struct ip_fperf_spent *spent,
			    uint64_t samples);

/* From ip_fperf_watch() to ip_fperf_unwatch() CPU time is exact, as far as the kernel allows it.
 * This costs the process something. */
void ip_fperf_watch(struct ip_fperf *f, pid_t pid);
void ip_fperf_unwatch(struct ip_fperf *f);
/* Returns whether CPU time is exact now. */
bool ip_fperf_is_watched(const struct ip_fperf *f);

/* Returns the CPU time of fperf in seconds, by this clock: of the calling thread, which does
 * everything but draining rings, or of the whole process. */
double ip_fperf_own(clockid_t clock);

/* Returns the seconds to wait before work that has taken own_s of fperf's CPU time may be done
 * again. This work may take that share of the budget. */
double ip_fperf_pause(const struct ip_fperf *f, double own_s, double share);

/* Returns the new estimate of a cost, from the estimate so far and what it was now. The first time
 * costs more, and so may other times. */
double ip_fperf_learn(double known, double now);

#endif
