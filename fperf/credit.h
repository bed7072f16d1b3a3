/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a budget allows to spend: of FPerf (account.h), and of recordings that have one
 * (recording_budget.h).
 *
 * The income is the budget's share (IP_CREDIT_MARGIN of it) of the CPU time that the process has
 * had. So nothing may be taken from a program that sleeps, and four times as much from one with
 * four busy threads as from one with one. The rest is saved, up to IP_CREDIT_SAVE_S of income: a
 * pause must not pay for a burst that a user would feel. The account begins with an advance.
 */
#ifndef IP_CREDIT_H
#define IP_CREDIT_H

#include <stdint.h>
#include <sys/types.h>

/* This part of the budget is income. The rest is for what is spent between two looks, and for what
 * is not measured (caches). */
#define IP_CREDIT_MARGIN 0.8
#define IP_CREDIT_SAVE_S 1.0

struct ip_credit {
	double budget; /* share of the CPU time of the process; negative: there is no budget */
	double ns;     /* saved; negative: overdrawn */
	/* the highest ns since that was set last if it is negative; otherwise 0 */
	double debt_ns;
	double busy; /* number of CPUs that the process keeps busy */
};

/* cpu_ns: CPU time that the process has had by now. */
void ip_credit_open(struct ip_credit *credit, double budget, pid_t pid, uint64_t cpu_ns);
/* Returns the most that may be saved, in ns. */
double ip_credit_limit(const struct ip_credit *credit);
/* The process had so much CPU time in wall_ns. */
void ip_credit_note_busy(struct ip_credit *credit, double cpu_ns, double wall_ns);
/* The process had so much CPU time, of which so much was spent. */
void ip_credit_settle(struct ip_credit *credit, double cpu_ns, double spent_ns);
/* Takes back what was spent. */
void ip_credit_refund(struct ip_credit *credit, double ns);

#endif
