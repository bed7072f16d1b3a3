/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which functions are sampled, and which are taken out, so that FPerf costs no more than its
 * budget. This is the interface between the controller (loop.c), which knows processes, and a
 * policy, which knows numbers only. fperf's own policy is the leaky bucket (leaky_bucket.h). Tests
 * plug in others.
 *
 * The controller asks the policy at each interval, and whenever more was spent than there is. It
 * passes what is known of each function, and the allowance. The policy decides which functions are
 * live from now on (stay), how many samples each may take (quota), and from one call in how many
 * (every). A policy keeps nothing from one decision to the next: how long a function has been out,
 * and how many samples it has, is passed to it.
 *
 * ip_fperf_decide() asks the policy, and enforces the rules that hold for every policy:
 *   1. Without a budget all functions are live, without a limit: the policy is not asked.
 *   2. The promise. A live function that has fewer than IP_FPERF_PROMISED samples may take that
 *      many, of the first calls that come. These samples are not part of the limited ones
 *      (allowance.samples). All other samples together are at most allowance.samples.
 *   3. A function that is out comes in only when turns are allowed and something is saved.
 *   4. If the account is overdrawn, no samples are taken but the promised ones. If it is overdrawn
 *      by more than can ever be saved, the most expensive functions go out, until the live ones
 *      cost no more than the budget. So whatever a policy decides, what is spent in a time T is at
 *      most the budget's share of T, plus twice the limit, plus the cost of one interval.
 *   5. Exclusive samples need all functions live: if some are out, no function has a quota.
 *   6. Calls of some functions go on in other functions that they jump to at their end. A function
 *      that needs one that is out has no quota, not even the promised one: it is counted (tails.h).
 *
 * Left to a policy: to give each function that is out its turn, and to make good use of the rest.
 */
#ifndef IP_FPERF_POLICY_H
#define IP_FPERF_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_FPERF_NO_LIMIT INT32_MAX
#define IP_FPERF_PROMISED 2u /* samples of each function that is called */

struct ip_fperf_item {
	/* What is known. */
	bool live;
	bool samples_none; /* it has no exit: it is only counted */
	/* it is live only for the functions that need it: the user has not asked for its figures */
	bool hidden;
	const uint32_t *needs; /* indices of other items, without which it can take no samples */
	size_t nneeds;
	double calls_per_s; /* while it was last live; 0: no calls were seen */
	double out_s;	    /* time that it has been out */
	uint64_t samples;
	/* its widest interval, as a share of the mean; negative: not known */
	double width;
	/* its share of the first event's count over all functions, calls inside of calls included;
	 * 0: not known */
	double share;
	/* What is decided. A policy finds false, 0 and 1 here. */
	bool stay; /* live from now on */
	uint32_t quota, every;
};

struct ip_fperf_allowance {
	double budget_ns; /* per second; negative: no budget */
	double credit_ns; /* saved; negative: overdrawn */
	double limit_ns;  /* the most that can be saved */
	/* most samples that may be given now, besides the promised ones; negative: as many as the
	 * budget allows */
	double samples;
	double interval_s;
	/* the shortest possible turn, including the time that changes take */
	double window_s;
	/* a turn of this length tells how often functions are called: more turns are better than
	 * longer ones */
	double good_s;
	double count_ns, sample_ns, change_ns;
	/* added to count_ns for a function that is hardly ever called */
	double cold_ns;
	/* cost of each hook of a call that is no sample, of a function that has a quota left */
	double hook_ns;
	bool turns; /* hot functions may come in now */
	/* samples are right only while all functions are live (abi/fperf.h): either all functions
	 * get quotas, or none */
	bool exclusive;
	double run_ns; /* CPU time that the process gets per second */
};

#define IP_FPERF_WINDOW_MAX_S 0.04 /* longest turn */
/* Counting in one turn may take this part of the savings. The rest is for its samples. */
#define IP_FPERF_TURN_SHARE 0.4

/* Returns the length of a turn of functions that cost so much per second while they are live: as
 * long as the savings last. */
double ip_fperf_window(double cost_per_s, const struct ip_fperf_allowance *allowance);

/* Returns what counting a call costs, in ns, if the function is called that often. */
double ip_fperf_call_cost(double calls_per_s, const struct ip_fperf_allowance *allowance);

/* Returns whether a function that the item needs does not stay, as decided so far. */
bool ip_fperf_is_blocked(const struct ip_fperf_item *items, const struct ip_fperf_item *item);

struct ip_fperf_policy {
	const char *name;
	/* Called only if there is a budget. Returns 0, or -1: out of memory. */
	int (*decide)(struct ip_fperf_item *items, size_t n,
		      const struct ip_fperf_allowance *allowance);
};

/* Asks the policy, and enforces the rules above. Returns 0, or -1 with an error. */
int ip_fperf_decide(const struct ip_fperf_policy *policy, struct ip_fperf_item *items, size_t n,
		    const struct ip_fperf_allowance *allowance);

#endif
