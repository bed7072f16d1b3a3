/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our own real-time priority while threads of a target are stopped or borrowed: these wait for us.
 */
#ifndef IP_PRIORITY_H
#define IP_PRIORITY_H

#include <sched.h>
#include <stdbool.h>

#define IP_STOP_PRIORITY 10

struct ip_priority {
	bool on;
	int policy; /* ours before */
	struct sched_param priority;
};

/* Whether we have it. Ordinary users may not; then it takes longer. */
bool ip_priority_begin(struct ip_priority *ret);

/* Back to what we had; nothing to do where it was not on. */
void ip_priority_end(struct ip_priority *priority);

#endif
