/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stopping all threads of a target, and letting them go.
 *
 *   0. See since when threads have been waiting (sleep.h), so that the stop does not make their calls last longer (restart.h).
 *   1. SEIZE every thread in /proc/PID/task (they run on), with TRACECLONE, so that a thread born from now on is ours
 *      from its first instruction.
 *   2. INTERRUPT each, wait for each.
 *   3. List the threads again; new ones: back to 1. A pass that finds none ends the gathering: every thread
 *      is stopped, so none can make another.
 *   4. (the caller reads program counters, verifies, writes)
 *      We run with real-time priority from the first INTERRUPT to the last DETACH, where we may: the length of a stop is mostly
 *      waiting for a CPU.
 *   5. DETACH each, with the signal it was about to get, so that none is lost. A group-stop stays a group-stop.
 *
 * Past the deadline everything gathered so far is released and nothing has been changed: a thread in
 * uninterruptible sleep (vfork parent, D state) cannot be stopped at will. Such a thread stays ours, and will stop when it wakes up:
 * ip_stop_let_go(), called now and then, lets it go on. If we are killed the kernel detaches every thread and they run on.
 *
 * TRACECLONE also brings processes that clone() made with another exit signal than SIGCHLD: they are none of the target's threads and
 * are let go at once.
 */
#ifndef IP_STOP_H
#define IP_STOP_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "hotpatcher/restart.h"
#include "hotpatcher/target.h"

struct ip_stopped_thread {
	pid_t tid;
	int signal; /* to hand on at the release; 0: none */
	bool stopped;
	bool by_us; /* by our own INTERRUPT: neither a signal nor a stop of the whole process */
	bool gone;
	uint64_t pc; /* read when it stopped */
	struct ip_time_left left; /* of the system call that starts again */
};

struct ip_stop {
	struct ip_target *target;
	struct ip_stopped_thread *threads;
	size_t n, capacity;
	struct ip_sleeps sleeps; /* of threads that were waiting before */
	uint64_t began_ns;	 /* CLOCK_MONOTONIC at the first INTERRUPT */
	uint64_t began_tsc;
	bool late; /* the deadline passed */
	bool boosted;
	int policy; /* ours before the boost */
	struct sched_param priority;
};

/* Stops all threads within deadline_ns. 0; or -1 with the reason, everything released: already traced, gone,
 * deadline. */
int ip_stop_begin(struct ip_target *target, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets all go. Returns the length of the stop in nanoseconds: first INTERRUPT to last DETACH. */
uint64_t ip_stop_end(struct ip_stop *stop);

/* Stops one thread; ip_stop_end() lets it go. 0, or -1 (errno says why) where it cannot be traced, is gone, or is late. */
int ip_stop_one(struct ip_target *target, pid_t tid, uint64_t deadline_ns, struct ip_stop *ret);

/* Lets threads go on that a stop had to leave behind, as far as they have stopped since. */
void ip_stop_let_go(struct ip_target *target);

/* Where the one thread stands; 0 and *ret_pc, or -1 where it is gone. It is stopped for a moment. */
int ip_stop_peek(struct ip_target *target, pid_t tid, uint64_t deadline_ns, uint64_t *ret_pc);

uint64_t ip_now_ns(void);

#endif
