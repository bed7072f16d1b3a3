/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What iprobe remembers of a target from one stop to the next: threads that did not stop in time,
 * how long the target is to be left alone after stops that changed nothing, and the stops that
 * have not been reported yet. struct ip_target knows nothing of it: it holds the process alone.
 */
#ifndef IP_STOPS_H
#define IP_STOPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hotpatcher/process/target.h"
#include "hotpatcher/ptrace/renewed_calls.h"
#include "hotpatcher/ptrace/stop_log.h"

struct ip_stack_copies;

struct ip_stops {
	struct ip_target_state base;
	/* what the next stop that writes live sites copies of the threads; borrowed. NULL: nothing
	 * (stack_copies.h) */
	struct ip_stack_copies *copies;
	/* threads that did not stop in time: they are still tracees, see ip_stop_let_go() */
	pid_t *held;
	size_t nheld;
	uint64_t held_looked_ns; /* when iprobe last looked whether they have stopped */
	/* a thread in uninterruptible sleep, because of which the last stop failed; 0: none */
	pid_t asleep;
	bool starved;		/* the last stop failed because threads got no CPU in time */
	unsigned nstarved;	/* how many such stops there were in a row */
	uint64_t max_stop_ns;	/* what the caller of the last stop allowed */
	uint64_t rest_until_ns; /* after a stop that changed nothing: no stop before this time */
	/* a thread in uninterruptible sleep because of which a stop changed nothing; no next stop
	 * before the time below, unless the thread is awake */
	pid_t sleeper;
	uint64_t sleeper_rest_until_ns;
	/* a thread in uninterruptible sleep, how often it had come to a CPU then, and for how long
	 * other threads have had priority because of this sleep (stop_asleep.c) */
	pid_t lent_for;
	uint64_t lent_turns, lent_ns;
	struct ip_stop_log log; /* stops that have not been reported yet */
	/* a thread that has just been borrowed; it is the first choice when a thread is borrowed
	 * again; 0: none */
	pid_t lender;
	/* a thread whose call was seen to block more signals than the thread itself: it is borrowed
	 * only if no other one can be had; 0: none */
	pid_t masks_more;
	bool job_control; /* ip_job_control_end() is to be called when no thread is held any more */
	/* system calls that a stop made begin anew, with all of their time limit
	 * (syscall_restart.h) */
	struct ip_renewed_calls renewed;
};

/* Opens a target that is to be stopped, as ip_target_open() does for writing. The caller closes it
 * with ip_target_close(). 0, or -1 with the reason. */
int ip_stops_open(pid_t pid, struct ip_target **ret);

/* The stops of a target that ip_stops_open() opened. Never NULL. */
struct ip_stops *ip_stops_of(const struct ip_target *target);

#endif
