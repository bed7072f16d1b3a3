/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is remembered of a target from one stop to the next: threads that did not stop in time, how
 * long the target is to be left alone after stops in vain, and the stops that nobody has been told
 * of yet. struct ip_target knows nothing of it: it holds the process alone.
 */
#ifndef IP_STOPS_H
#define IP_STOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/stop_log.h"

struct ip_stops {
	struct ip_target_state base;
	/* threads that did not stop in time: still our tracees, see ip_stop_let_go() */
	pid_t *held;
	size_t nheld;
	uint64_t held_looked_ns; /* when they were last looked after */
	/* a thread in uninterruptible sleep, because of which the last stop failed; 0: none */
	pid_t asleep;
	bool starved;		/* the last stop failed since threads got no CPU in time */
	unsigned nstarved;	/* how many in a row did */
	uint64_t max_stop_ns;	/* of the last stop, as asked for */
	uint64_t rest_until_ns; /* after a stop in vain: until then it is not stopped again */
	/* because of which a stop was in vain: until then, or until it is awake */
	pid_t sleeper;
	uint64_t sleeper_rest_until_ns;
	struct ip_stop_log log; /* stops that nobody has been told of */
	/* a thread that has just been borrowed, and is the first to be so again; 0: none */
	pid_t lender;
	bool job_control; /* ip_job_control_end() is due when none is held any more */
	struct {
		size_t n;
		pid_t tid; /* of the last one */
		long number;
	} renewed; /* system calls whose time limit a stop let begin anew (syscall_restart.h) */
};

/* Opens a target that is to be stopped: as ip_target_open() for writing. ip_target_close() closes
 * it. */
int ip_stops_open(pid_t pid, struct ip_target **ret);

/* Of a target that was opened so. Never NULL. */
struct ip_stops *ip_stops_of(const struct ip_target *target);

#endif
