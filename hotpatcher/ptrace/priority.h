/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe's own real-time priority while threads of a target are stopped or borrowed: these threads
 * wait for iprobe.
 */
#ifndef IP_PRIORITY_H
#define IP_PRIORITY_H

#include <sched.h>
#include <stdbool.h>

#define IP_STOP_PRIORITY 10

struct ip_priority {
	bool on;
	int policy; /* the policy of the calling thread before */
	struct sched_param priority;
};

/* Gives the calling thread real-time priority. false: it may not have it, as ordinary users may
 * not; then the stop takes longer. */
bool ip_priority_begin(struct ip_priority *ret);

/* Gives the calling thread its former policy back. Does nothing if ip_priority_begin() failed. */
void ip_priority_end(struct ip_priority *priority);

#endif
