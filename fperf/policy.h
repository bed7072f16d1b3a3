/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is sampled, and who is taken out, so that FPerf costs no more than its budget: the interface
 * between the controller (loop.c), which knows processes, and a policy, which knows numbers only.
 * The leaky bucket (leaky_bucket.h) is the one that fperf has; tests plug in others.
 *
 * The controller asks each interval, and whenever more was spent than is there. It says what is
 * known of each function, and what the means are; the policy says which functions are live from now
 * on (stay), how many samples each may take (quota), and from one call in how many (every). A
 * policy keeps nothing from one decision to the next: how long a function has been out, and how
 * many samples it has, is among what is known.
 *
 * ip_fperf_decide() asks it, and holds it to what every policy has to keep, so that none can break
 * it:
 *   1. Without a budget all are live, without a limit: the policy is not asked.
 *   2. The promise. Who is live and has fewer than IP_FPERF_PROMISED samples may take so many, of
 *      the first calls that come. These are no part of the samples that are limited
 *      (means.samples); of the others there are no more than that.
 *   3. Who is out comes in only when it is time for turns, and something is saved up.
 *   4. What is overdrawn buys no sample but those promised; and where more is overdrawn than can
 *      ever be saved up the costliest go, until those that are live cost no more than the budget.
 *      So whatever a policy says, what is spent in a time T is at most the budget's share of T,
 *      twice the limit, and what one interval costs.
 *   5. Exclusive samples need all functions live: where some are out nobody has a quota.
 *   6. Calls of some functions go on in others that they jump to at their end. Who needs one that
 *      is out has no quota, not even the one promised: it is counted (tails.h).
 *
 * What is left to a policy: to come round to everybody who is out, and to make good use of the
 * rest.
 */
#ifndef IP_FPERF_POLICY_H
#define IP_FPERF_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_FPERF_NO_LIMIT INT32_MAX
#define IP_FPERF_PROMISED 2u /* samples of each function that is called */

struct ip_fperf_item {
	/* what is known */
	bool live;
	bool samples_none; /* it has no exit: it is only counted */
	bool hidden; /* it is there for those that need it only: nobody has asked for its figures */
	const uint32_t *needs; /* other items, without which it can take no samples */
	size_t nneeds;
	double calls_per_s; /* while it was live last; 0: none seen */
	double out_s;	    /* how long it has been out */
	uint64_t samples;
	double width; /* of its widest interval, as a share of the mean; negative: not known */
	/* of what the first event counted, calls within calls included, of all functions; 0: not
	 * known */
	double share;
	/* what is decided; a policy finds false, 0 and 1 there */
	bool stay; /* live from now on */
	uint32_t quota, every;
};

struct ip_fperf_means {
	double budget_ns; /* a second; negative: there is none */
	double credit_ns; /* saved up; negative: overdrawn */
	double limit_ns;  /* as much is saved up at most */
	/* that may be given now at most, besides those promised; negative: as many as the budget
	 * allows */
	double samples;
	double interval_s;
	/* the shortest turn there can be: with what changes take from one to the other; */
	double window_s;
	/* so long a one tells how often functions are called: rather more of them than longer
	 * ones */
	double good_s;
	double count_ns, sample_ns, change_ns;
	double cold_ns; /* more than count_ns, of a function that is hardly ever called */
	/* a call of a function that has a quota left, and is no sample: each of its hooks */
	double hook_ns;
	bool turns; /* hot ones may come in now */
	/* samples are right only while all functions are live (abi/fperf.h): quotas are given to
	 * all, or to nobody */
	bool exclusive;
	double run_ns; /* CPU time that the process has a second */
};

#define IP_FPERF_WINDOW_MAX_S 0.04 /* a turn, at most */
/* of what is saved up one turn may count for; the rest is for its samples */
#define IP_FPERF_TURN_SHARE 0.4

/* How long a turn is of functions that cost so much a second while they are live: as long as what
 * is saved up lasts. */
double ip_fperf_window(double cost_per_s, const struct ip_fperf_means *means);

/* What counting a call costs, ns, of a function that is called so often. */
double ip_fperf_call_cost(double calls_per_s, const struct ip_fperf_means *means);

/* Whether one that it needs does not stay, as decided so far. */
bool ip_fperf_is_blocked(const struct ip_fperf_item *items, const struct ip_fperf_item *item);

struct ip_fperf_policy {
	const char *name;
	/* There is a budget. 0, or -1: out of memory. */
	int (*decide)(struct ip_fperf_item *items, size_t n, const struct ip_fperf_means *means);
};

/* Asks the policy, and holds it to the above. 0, or -1 with an error. */
int ip_fperf_decide(const struct ip_fperf_policy *policy, struct ip_fperf_item *items, size_t n,
		    const struct ip_fperf_means *means);

#endif
