/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iprobe's own priority. See priority.h.
 */
#include "hotpatcher/ptrace/priority.h"

bool ip_priority_begin(struct ip_priority *ret)
{
	const struct sched_param high = {.sched_priority = IP_STOP_PRIORITY};

	*ret = (struct ip_priority){.policy = sched_getscheduler(0)};
	if (ret->policy >= 0 && sched_getparam(0, &ret->priority) == 0)
		ret->on = sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &high) == 0;
	return ret->on;
}

void ip_priority_end(struct ip_priority *priority)
{
	if (!priority->on)
		return;
	/* a process that may have the priority only by a limit (RLIMIT_RTPRIO) may not take the
	 * flag away again */
	if (sched_setscheduler(0, priority->policy, &priority->priority) < 0)
		sched_setscheduler(0, priority->policy | SCHED_RESET_ON_FORK, &priority->priority);
	priority->on = false;
}
